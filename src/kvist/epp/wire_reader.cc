#include "kvist/epp/wire_reader.h"

#include <fmt/format.h>

namespace kvist::epp {
namespace {

constexpr unsigned kBitsPerByte = 7;
constexpr unsigned kLastShift = 63;
constexpr std::uint32_t kMostFieldNumber = (1U << 29) - 1;

}  // namespace

Result<std::uint64_t> WireReader::varint() {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift <= kLastShift; shift += kBitsPerByte) {
    if (rest_.empty()) return fail(ErrorCode::kCorrupt, "a message ends within a number");
    const auto byte = static_cast<unsigned char>(rest_.front());
    rest_.remove_prefix(1);
    value |= std::uint64_t{byte & 0x7FU} << shift;
    if ((byte & 0x80U) == 0) return value;
  }
  return fail(ErrorCode::kCorrupt, "a number of a message has more than 64 bits");
}

Result<std::uint64_t> WireReader::fixed(std::size_t bytes) {
  if (rest_.size() < bytes) return fail(ErrorCode::kCorrupt, "a message ends within a number");
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < bytes; ++i) value |= std::uint64_t{static_cast<unsigned char>(rest_[i])} << (8 * i);
  rest_.remove_prefix(bytes);
  return value;
}

Result<bool> WireReader::next(WireField& field) {
  if (rest_.empty()) return false;
  KVIST_TRY(const std::uint64_t key, varint());
  const std::uint64_t number = key >> 3U;
  if (number == 0 || number > kMostFieldNumber)
    return fail(ErrorCode::kCorrupt, fmt::format("a message has a field with the number {}", number));
  field = {.number = static_cast<std::uint32_t>(number)};
  switch (key & 7U) {
    case 0: {
      field.type = WireField::Type::kVarint;
      KVIST_TRY(field.value, varint());
      return true;
    }
    case 1: {
      field.type = WireField::Type::kFixed64;
      KVIST_TRY(field.value, fixed(8));
      return true;
    }
    case 2: {
      field.type = WireField::Type::kBytes;
      KVIST_TRY(const std::uint64_t length, varint());
      if (length > rest_.size())
        return fail(ErrorCode::kCorrupt,
                    fmt::format("field {} has {} bytes, and the message {} more", number, length, rest_.size()));
      field.bytes = rest_.substr(0, length);
      rest_.remove_prefix(length);
      return true;
    }
    case 5: {
      field.type = WireField::Type::kFixed32;
      KVIST_TRY(field.value, fixed(4));
      return true;
    }
    default:
      return fail(ErrorCode::kCorrupt, fmt::format("field {} has the wire type {}", number, key & 7U));
  }
}

}  // namespace kvist::epp

#include "kvist/epp/wire_writer.h"

namespace kvist::epp {

void WireWriter::append(std::uint64_t value) {
  constexpr std::uint64_t kMore = 0x80;
  for (; value >= kMore; value >>= 7U) out_ += static_cast<char>((value & 0x7FU) | kMore);
  out_ += static_cast<char>(value);
}

void WireWriter::varint(std::uint32_t field, std::uint64_t value) {
  append(std::uint64_t{field} << 3U);
  append(value);
}

void WireWriter::bytes(std::uint32_t field, std::string_view value) {
  append((std::uint64_t{field} << 3U) | 2U);
  append(value.size());
  out_ += value;
}

}  // namespace kvist::epp

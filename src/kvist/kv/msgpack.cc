#include "kvist/kv/msgpack.h"

#include <bit>
#include <limits>

#include "kvist/base/check.h"

namespace kvist::kv {
namespace {

using Kind = MsgpackToken::Kind;

// First bytes of items, from https://github.com/msgpack/msgpack/blob/master/spec.md. Small values are part of the byte.
constexpr std::uint8_t kLastPositiveFixint = 0x7f;
constexpr std::uint8_t kFixMap = 0x80;
constexpr std::uint8_t kFixArray = 0x90;
constexpr std::uint8_t kFixString = 0xa0;
constexpr std::uint8_t kNil = 0xc0;
constexpr std::uint8_t kFalse = 0xc2;
constexpr std::uint8_t kTrue = 0xc3;
constexpr std::uint8_t kBinary8 = 0xc4;
constexpr std::uint8_t kBinary16 = 0xc5;
constexpr std::uint8_t kBinary32 = 0xc6;
constexpr std::uint8_t kExtension8 = 0xc7;
constexpr std::uint8_t kExtension16 = 0xc8;
constexpr std::uint8_t kExtension32 = 0xc9;
constexpr std::uint8_t kFloat32 = 0xca;
constexpr std::uint8_t kFloat64 = 0xcb;
constexpr std::uint8_t kUnsigned8 = 0xcc;
constexpr std::uint8_t kUnsigned16 = 0xcd;
constexpr std::uint8_t kUnsigned32 = 0xce;
constexpr std::uint8_t kUnsigned64 = 0xcf;
constexpr std::uint8_t kSigned8 = 0xd0;
constexpr std::uint8_t kSigned16 = 0xd1;
constexpr std::uint8_t kSigned32 = 0xd2;
constexpr std::uint8_t kSigned64 = 0xd3;
constexpr std::uint8_t kFixExtension1 = 0xd4;
constexpr std::uint8_t kFixExtension16 = 0xd8;
constexpr std::uint8_t kString8 = 0xd9;
constexpr std::uint8_t kString16 = 0xda;
constexpr std::uint8_t kString32 = 0xdb;
constexpr std::uint8_t kArray16 = 0xdc;
constexpr std::uint8_t kArray32 = 0xdd;
constexpr std::uint8_t kMap16 = 0xde;
constexpr std::uint8_t kMap32 = 0xdf;
constexpr std::uint8_t kNegativeFixint = 0xe0;

MsgpackToken integer_token(std::uint64_t value, bool negative) {
  MsgpackToken token;
  token.kind = negative ? Kind::kNegative : Kind::kUnsigned;
  token.integer = value;
  return token;
}

MsgpackToken boolean_token(bool value) {
  MsgpackToken token;
  token.kind = Kind::kBoolean;
  token.boolean = value;
  return token;
}

/// Fills the upper bits of a signed number of `bytes` bytes.
std::uint64_t sign_extend(std::uint64_t value, std::size_t bytes) {
  const auto shift = 64 - 8 * bytes;
  return static_cast<std::uint64_t>(static_cast<std::int64_t>(value << shift) >> shift);
}

}  // namespace

std::string_view MsgpackToken::text() const {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::optional<std::span<const std::uint8_t>> MsgpackReader::take(std::size_t bytes) {
  if (bytes > rest_.size()) return std::nullopt;
  const auto taken = rest_.first(bytes);
  rest_ = rest_.subspan(bytes);
  return taken;
}

std::optional<std::uint64_t> MsgpackReader::take_integer(std::size_t bytes) {
  const auto taken = take(bytes);
  if (!taken) return std::nullopt;
  std::uint64_t value = 0;
  for (const std::uint8_t byte : *taken) value = value << 8 | byte;
  return value;
}

std::optional<MsgpackToken> MsgpackReader::next() {
  if (rest_.empty()) return std::nullopt;
  const std::uint8_t first = rest_.front();
  rest_ = rest_.subspan(1);
  if (first <= kLastPositiveFixint) return integer_token(first, false);
  if (first >= kNegativeFixint) return integer_token(sign_extend(first, 1), true);
  if (first < kFixArray) return container_token(Kind::kMap, first - kFixMap);
  if (first < kFixString) return container_token(Kind::kArray, first - kFixArray);
  if (first < kNil) return bytes_token(Kind::kString, first - kFixString);
  return wide_token(first);
}

std::optional<MsgpackToken> MsgpackReader::wide_token(std::uint8_t first) {
  switch (first) {
    case kNil:
      return MsgpackToken{};
    case kFalse:
      return boolean_token(false);
    case kTrue:
      return boolean_token(true);
    case kBinary8:
      return bytes_token(Kind::kBinary, take_integer(1));
    case kBinary16:
      return bytes_token(Kind::kBinary, take_integer(2));
    case kBinary32:
      return bytes_token(Kind::kBinary, take_integer(4));
    case kExtension8:
      return bytes_token(Kind::kExtension, take_integer(1));
    case kExtension16:
      return bytes_token(Kind::kExtension, take_integer(2));
    case kExtension32:
      return bytes_token(Kind::kExtension, take_integer(4));
    case kFloat32:
      return real_token(4);
    case kFloat64:
      return real_token(8);
    case kUnsigned8:
    case kUnsigned16:
    case kUnsigned32:
    case kUnsigned64: {
      const auto value = take_integer(std::size_t{1} << (first - kUnsigned8));
      if (!value) return std::nullopt;
      return integer_token(*value, false);
    }
    case kSigned8:
    case kSigned16:
    case kSigned32:
    case kSigned64:
      return signed_token(std::size_t{1} << (first - kSigned8));
    case kString8:
      return bytes_token(Kind::kString, take_integer(1));
    case kString16:
      return bytes_token(Kind::kString, take_integer(2));
    case kString32:
      return bytes_token(Kind::kString, take_integer(4));
    case kArray16:
      return container_token(Kind::kArray, take_integer(2));
    case kArray32:
      return container_token(Kind::kArray, take_integer(4));
    case kMap16:
      return container_token(Kind::kMap, take_integer(2));
    case kMap32:
      return container_token(Kind::kMap, take_integer(4));
    default:
      break;
  }
  if (first >= kFixExtension1 && first <= kFixExtension16)
    return bytes_token(Kind::kExtension, std::uint64_t{1} << (first - kFixExtension1));
  return std::nullopt;  // 0xc1, which the format never uses
}

std::optional<MsgpackToken> MsgpackReader::signed_token(std::size_t bytes) {
  const auto value = take_integer(bytes);
  if (!value) return std::nullopt;
  const std::uint64_t extended = sign_extend(*value, bytes);
  return integer_token(extended, static_cast<std::int64_t>(extended) < 0);
}

std::optional<MsgpackToken> MsgpackReader::real_token(std::size_t bytes) {
  const auto bits = take_integer(bytes);
  if (!bits) return std::nullopt;
  MsgpackToken token;
  token.kind = Kind::kReal;
  token.real = bytes == 8 ? std::bit_cast<double>(*bits)
                          : static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(*bits)));
  return token;
}

std::optional<MsgpackToken> MsgpackReader::bytes_token(Kind kind, std::optional<std::uint64_t> length) {
  if (!length) return std::nullopt;
  if (kind == Kind::kExtension && !take(1)) return std::nullopt;  // its type, which nobody asks for
  const auto taken = take(*length);
  if (!taken) return std::nullopt;
  MsgpackToken token;
  token.kind = kind;
  token.bytes = *taken;
  return token;
}

std::optional<MsgpackToken> MsgpackReader::container_token(Kind kind, std::optional<std::uint64_t> count) const {
  if (!count) return std::nullopt;
  // An item takes at least one byte, so a larger count is false. Therefore callers may reserve memory by `count`.
  if (*count * (kind == Kind::kMap ? 2 : 1) > rest_.size()) return std::nullopt;
  MsgpackToken token;
  token.kind = kind;
  token.count = static_cast<std::uint32_t>(*count);
  return token;
}

std::optional<std::span<const std::uint8_t>> MsgpackReader::skip() {
  const auto start = rest_;
  // The depth needs no stack: only the number of items that are still to come matters. It stays below the square of the
  // input's size, far from an overflow.
  for (std::uint64_t items = 1; items > 0; --items) {
    const auto token = next();
    if (!token) return std::nullopt;
    items += token->kind == Kind::kMap ? std::uint64_t{2} * token->count : token->count;
    if (items - 1 > rest_.size()) return std::nullopt;
  }
  return start.first(start.size() - rest_.size());
}

std::optional<MsgpackToken> MsgpackReader::next_long_value() {
  MsgpackReader behind = *this;
  const auto token = behind.next();
  if (!token || token->count == 0) {
    *this = behind;
    return token;
  }
  if (!skip()) return std::nullopt;
  return token;
}

void MsgpackWriter::byte(std::uint8_t value) {
  out_.push_back(static_cast<char>(value));
}

void MsgpackWriter::big_endian(std::uint64_t value, std::size_t bytes) {
  for (std::size_t i = bytes; i-- > 0;) byte(static_cast<std::uint8_t>(value >> (8 * i)));
}

/// Writes a code and the size after it, in the narrowest form that the size allows. A `code8` of 0 says that the kind
/// has no form with 8 bits.
void MsgpackWriter::sized(std::size_t size, std::uint8_t code8, std::uint8_t code16, std::uint8_t code32) {
  KVIST_CHECK(size <= std::numeric_limits<std::uint32_t>::max(), "msgpack sizes have 32 bits");
  if (code8 != 0 && size <= 0xff) {
    byte(code8);
    big_endian(size, 1);
  } else if (size <= 0xffff) {
    byte(code16);
    big_endian(size, 2);
  } else {
    byte(code32);
    big_endian(size, 4);
  }
}

void MsgpackWriter::nil() {
  byte(kNil);
}

void MsgpackWriter::boolean(bool value) {
  byte(value ? kTrue : kFalse);
}

void MsgpackWriter::unsigned_integer(std::uint64_t value) {
  if (value <= kLastPositiveFixint) {
    byte(static_cast<std::uint8_t>(value));
  } else if (value <= 0xff) {
    byte(kUnsigned8);
    big_endian(value, 1);
  } else if (value <= 0xffff) {
    byte(kUnsigned16);
    big_endian(value, 2);
  } else if (value <= 0xffff'ffff) {
    byte(kUnsigned32);
    big_endian(value, 4);
  } else {
    byte(kUnsigned64);
    big_endian(value, 8);
  }
}

void MsgpackWriter::signed_integer(std::int64_t value) {
  const auto bits = static_cast<std::uint64_t>(value);
  if (value >= 0) {
    unsigned_integer(bits);
  } else if (value >= -32) {
    byte(static_cast<std::uint8_t>(bits));
  } else if (value >= std::numeric_limits<std::int8_t>::min()) {
    byte(kSigned8);
    big_endian(bits, 1);
  } else if (value >= std::numeric_limits<std::int16_t>::min()) {
    byte(kSigned16);
    big_endian(bits, 2);
  } else if (value >= std::numeric_limits<std::int32_t>::min()) {
    byte(kSigned32);
    big_endian(bits, 4);
  } else {
    byte(kSigned64);
    big_endian(bits, 8);
  }
}

void MsgpackWriter::real(double value) {
  byte(kFloat64);
  big_endian(std::bit_cast<std::uint64_t>(value), 8);
}

void MsgpackWriter::string(std::string_view value) {
  if (value.size() <= 31)
    byte(static_cast<std::uint8_t>(kFixString + value.size()));
  else
    sized(value.size(), kString8, kString16, kString32);
  out_.append(value);
}

void MsgpackWriter::binary(std::span<const std::uint8_t> value) {
  sized(value.size(), kBinary8, kBinary16, kBinary32);
  out_.append(reinterpret_cast<const char*>(value.data()), value.size());
}

void MsgpackWriter::array(std::size_t items) {
  if (items <= 15)
    byte(static_cast<std::uint8_t>(kFixArray + items));
  else
    sized(items, 0, kArray16, kArray32);
}

void MsgpackWriter::map(std::size_t pairs) {
  if (pairs <= 15)
    byte(static_cast<std::uint8_t>(kFixMap + pairs));
  else
    sized(pairs, 0, kMap16, kMap32);
}

}  // namespace kvist::kv

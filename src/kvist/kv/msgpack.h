// A small msgpack reader and writer: as much as the KV-event codec needs, safe on hostile bytes.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace kvist::kv {

/// One msgpack item. The items of an array or a map follow it as items of their own.
struct MsgpackToken {
  enum class Kind : std::uint8_t {
    kNil,
    kBoolean,
    kUnsigned,   ///< `integer`
    kNegative,   ///< `integer` holds the two's complement
    kReal,       ///< `real`
    kString,     ///< `bytes`, not checked for UTF-8
    kBinary,     ///< `bytes`
    kArray,      ///< `count` items follow
    kMap,        ///< `count` pairs of items follow
    kExtension,  ///< `bytes`, without the type
  };

  Kind kind = Kind::kNil;
  bool boolean = false;
  std::uint32_t count = 0;
  std::uint64_t integer = 0;
  double real = 0;
  std::span<const std::uint8_t> bytes;

  /// `bytes` as text; for kString.
  [[nodiscard]] std::string_view text() const;
};

/// Where an unsigned integer lies in the eight bytes that begin with its first, read as one big-endian number.
struct MsgpackUnsigned {
  std::uint32_t mask = 0;
  std::uint8_t shift = 0;
  std::uint8_t length = 0;  ///< of the item; 0: no unsigned integer of at most 32 bits
};

/// The form of an item by its first byte.
inline constexpr std::array<MsgpackUnsigned, 256> kMsgpackUnsigned = [] {
  std::array<MsgpackUnsigned, 256> forms{};
  for (std::size_t first = 0; first < 0x80; ++first) forms[first] = {.mask = 0x7f, .shift = 56, .length = 1};
  forms[0xcc] = {.mask = 0xff, .shift = 48, .length = 2};
  forms[0xcd] = {.mask = 0xffff, .shift = 40, .length = 3};
  forms[0xce] = {.mask = 0xffff'ffff, .shift = 24, .length = 5};
  return forms;
}();

/// Reads msgpack bytes item by item. Requires: the bytes outlive the reader and what it returns. A copy is cheap and is
/// used to look ahead. Safe on any input: it allocates nothing, does not recurse, and refuses a container that claims
/// more items than there are bytes left. Threads: a value, one at a time.
class MsgpackReader {
 public:
  explicit MsgpackReader(std::span<const std::uint8_t> bytes) : rest_(bytes) {}

  [[nodiscard]] bool at_end() const { return rest_.empty(); }
  /// The next item; nothing if the bytes end early or are not msgpack. After that the reader must not be used.
  [[nodiscard]] std::optional<MsgpackToken> next();
  /// Skips one value with everything in it, however deep, and returns its bytes, never empty; nothing as in next().
  [[nodiscard]] std::optional<std::span<const std::uint8_t>> skip();
  /// Skips one value with everything in it, and returns its first item, which is the whole value unless it is a
  /// container. Inlined for the short forms, because the maps of events mostly consist of these.
  [[nodiscard, gnu::always_inline]] std::optional<MsgpackToken> next_value();

  /// Reads items as long as they are unsigned integers in the forms of at most 32 bits, at most out.size(), and returns
  /// how many. May stop before the last such item; next() reads that one. No branch depends on the length of an item,
  /// because the processor could not predict it for token ids.
  template <class Value>
  std::size_t next_u32s(std::span<Value> out);
  /// The same for items in the 64-bit form.
  template <class Value>
  std::size_t next_u64s(std::span<Value> out);

  /// The bytes between the position of this reader and that of `later`. Requires: `later` is a copy of this reader that
  /// read on.
  [[nodiscard]] std::span<const std::uint8_t> until(const MsgpackReader& later) const {
    return rest_.first(rest_.size() - later.rest_.size());
  }

 private:
  [[nodiscard]] static std::uint64_t big_endian(const std::uint8_t* bytes) {
    std::uint64_t value = 0;
    std::memcpy(&value, bytes, sizeof value);
    return std::endian::native == std::endian::little ? std::byteswap(value) : value;
  }
  [[nodiscard]] std::optional<MsgpackToken> next_long_value();
  [[nodiscard]] std::optional<std::span<const std::uint8_t>> take(std::size_t bytes);
  [[nodiscard]] std::optional<std::uint64_t> take_integer(std::size_t bytes);
  [[nodiscard]] std::optional<MsgpackToken> wide_token(std::uint8_t first);
  [[nodiscard]] std::optional<MsgpackToken> signed_token(std::size_t bytes);
  [[nodiscard]] std::optional<MsgpackToken> real_token(std::size_t bytes);
  [[nodiscard]] std::optional<MsgpackToken> bytes_token(MsgpackToken::Kind kind, std::optional<std::uint64_t> length);
  [[nodiscard]] std::optional<MsgpackToken> container_token(MsgpackToken::Kind kind,
                                                            std::optional<std::uint64_t> count) const;

  std::span<const std::uint8_t> rest_;
};

inline std::optional<MsgpackToken> MsgpackReader::next_value() {
  constexpr std::uint8_t kShortText = 0xa0;
  constexpr std::uint8_t kNil = 0xc0;
  if (rest_.empty()) return std::nullopt;
  const std::uint8_t first = rest_.front();
  const std::size_t length = first & 0x1fU;
  if (first < kShortText || first > kNil || (first < kNil && length >= rest_.size())) return next_long_value();
  MsgpackToken token;  // nil
  if (first < kNil) {
    token.kind = MsgpackToken::Kind::kString;
    token.bytes = rest_.subspan(1, length);
    rest_ = rest_.subspan(1 + length);
  } else {
    rest_ = rest_.subspan(1);
  }
  return token;
}

template <class Value>
std::size_t MsgpackReader::next_u32s(std::span<Value> out) {
  const std::uint8_t* at = rest_.data();
  const std::uint8_t* const last = at + (rest_.size() < sizeof(std::uint64_t) ? 0 : rest_.size() - 7);
  std::size_t count = 0;
  while (count < out.size() && at < last) {
    const MsgpackUnsigned form = kMsgpackUnsigned[*at];
    if (form.length == 0) break;
    out[count++] = Value(static_cast<std::uint32_t>(big_endian(at) >> form.shift) & form.mask);
    at += form.length;
  }
  rest_ = rest_.subspan(static_cast<std::size_t>(at - rest_.data()));
  return count;
}

template <class Value>
std::size_t MsgpackReader::next_u64s(std::span<Value> out) {
  constexpr std::uint8_t kUnsigned64 = 0xcf;
  constexpr std::size_t kItem = 9;
  std::size_t count = 0;
  const std::uint8_t* at = rest_.data();
  const std::size_t most = std::min(out.size(), rest_.size() / kItem);
  while (count < most && *at == kUnsigned64) {
    out[count++] = Value(big_endian(at + 1));
    at += kItem;
  }
  rest_ = rest_.subspan(count * kItem);
  return count;
}

/// Appends msgpack to a string, each item in its shortest form. Requires: the caller writes as many items as it
/// announced. Threads: one at a time.
class MsgpackWriter {
 public:
  explicit MsgpackWriter(std::string& out) : out_(out) {}

  void nil();
  void boolean(bool value);
  void unsigned_integer(std::uint64_t value);
  void signed_integer(std::int64_t value);
  void real(double value);
  void string(std::string_view value);
  void binary(std::span<const std::uint8_t> value);
  void array(std::size_t items);
  void map(std::size_t pairs);

 private:
  void byte(std::uint8_t value);
  void big_endian(std::uint64_t value, std::size_t bytes);
  void sized(std::size_t size, std::uint8_t code8, std::uint8_t code16, std::uint8_t code32);

  std::string& out_;
};

}  // namespace kvist::kv

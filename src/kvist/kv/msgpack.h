// A small msgpack reader and writer: what the KV-event codec needs, safe on hostile bytes.
#pragma once

#include <cstddef>
#include <cstdint>
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

/// Reads msgpack bytes item by item. Requires: the bytes outlive the reader and what it returns. A copy is cheap and
/// serves to look ahead. Safe on any input: it allocates nothing, does not recurse, and refuses a container that claims
/// more items than there are bytes left.
class MsgpackReader {
 public:
  explicit MsgpackReader(std::span<const std::uint8_t> bytes) : rest_(bytes) {}

  [[nodiscard]] bool at_end() const { return rest_.empty(); }
  /// The next item; nothing if the bytes end early or are not msgpack. After that the reader must not be used.
  [[nodiscard]] std::optional<MsgpackToken> next();
  /// Skips one value with everything in it, however deep, and returns its bytes, never empty; nothing as in next().
  [[nodiscard]] std::optional<std::span<const std::uint8_t>> skip();

 private:
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

/// Appends msgpack to a string, each item in its shortest form. The caller writes as many items as it announced.
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

// The items of a message between gateways, one after the other.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/kv/msgpack.h"
#include "kvist/peering/message.h"

namespace kvist::peering {

/// 64-bit numbers as binary, little-endian.
template <class Number>
[[nodiscard]] std::vector<std::uint8_t> little_endian(std::span<const Number> numbers) {
  std::vector<std::uint8_t> bytes(numbers.size() * sizeof(std::uint64_t));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const auto value = [&] {
      if constexpr (requires { numbers[i].value(); }) {
        return std::uint64_t{numbers[i].value()};
      } else {
        return std::uint64_t{numbers[i]};
      }
    }();
    const std::uint64_t little = std::endian::native == std::endian::little ? value : std::byteswap(value);
    std::memcpy(bytes.data() + i * sizeof little, &little, sizeof little);
  }
  return bytes;
}

/// Takes the items of a message one after the other. The first that is not what is expected makes all further ones so.
/// Requires: the bytes outlive it.
class MessageItems {
 public:
  explicit MessageItems(std::span<const std::uint8_t> bytes) : reader_(bytes) {}

  [[nodiscard]] bool good() const { return good_; }
  [[nodiscard]] bool at_end() const { return reader_.at_end(); }
  std::uint64_t number(std::uint64_t most = std::numeric_limits<std::uint64_t>::max()) {
    const kv::MsgpackToken token = take(Kind::kUnsigned);
    good_ = good_ && token.integer <= most;
    return good_ ? token.integer : 0;
  }
  std::uint32_t number32(std::uint32_t most = std::numeric_limits<std::uint32_t>::max()) {
    return static_cast<std::uint32_t>(number(most));
  }
  bool boolean() { return take(Kind::kBoolean).boolean; }
  std::size_t array(std::size_t most) {
    const kv::MsgpackToken token = take(Kind::kArray);
    good_ = good_ && token.count <= most;
    return good_ ? token.count : 0;
  }
  void array_of(std::size_t items) { good_ = array(items) == items && good_; }
  std::string name() {
    const std::string_view text = take(Kind::kString).text();
    good_ = good_ && !text.empty() && text.size() <= kMaxNameBytes;
    return good_ ? std::string(text) : std::string();
  }
  /// Whether the next item is nil, which is then taken.
  bool nil() {
    if (!good_) return false;
    kv::MsgpackReader ahead = reader_;
    const auto token = ahead.next();
    if (!token || token->kind != Kind::kNil) return false;
    reader_ = ahead;
    return true;
  }
  /// Appends the numbers that little_endian() wrote, at least one and at most `most`.
  template <class Number>
  void numbers(std::size_t most, std::vector<Number>& out) {
    constexpr std::size_t kEach = sizeof(std::uint64_t);
    const kv::MsgpackToken token = take(Kind::kBinary);
    const std::size_t size = token.bytes.size();
    good_ = good_ && size > 0 && size % kEach == 0 && size / kEach <= most;
    if (!good_) return;
    out.reserve(out.size() + size / kEach);
    for (std::size_t at = 0; at < size; at += kEach) {
      std::uint64_t value = 0;
      std::memcpy(&value, token.bytes.data() + at, kEach);
      out.emplace_back(std::endian::native == std::endian::little ? value : std::byteswap(value));
    }
  }
  void refuse() { good_ = false; }

 private:
  using Kind = kv::MsgpackToken::Kind;

  kv::MsgpackToken take(Kind kind) {
    const std::optional<kv::MsgpackToken> token = good_ ? reader_.next() : std::nullopt;
    good_ = token && token->kind == kind;
    return good_ ? *token : kv::MsgpackToken();
  }

  kv::MsgpackReader reader_;
  bool good_ = true;
};

}  // namespace kvist::peering

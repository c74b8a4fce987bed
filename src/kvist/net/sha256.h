// SHA-256, and what secrets need besides.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace kvist::net {

using Sha256 = std::array<std::uint8_t, 32>;

/// Threads: any.
[[nodiscard]] Sha256 sha256(std::string_view data);
/// The hash of data that comes in pieces. Threads: one.
class Sha256Stream {
 public:
  Sha256Stream();
  ~Sha256Stream();
  Sha256Stream(const Sha256Stream&) = delete;
  Sha256Stream& operator=(const Sha256Stream&) = delete;

  void add(std::string_view data);
  /// Requires: nothing is added afterwards.
  [[nodiscard]] Sha256 finish();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};
/// 64 hexadecimal digits, and back; nothing if the text is not that.
[[nodiscard]] std::string to_hex(const Sha256& hash);
[[nodiscard]] std::optional<Sha256> sha256_from_hex(std::string_view text);
/// Takes the same time wherever the two differ.
[[nodiscard]] bool equal_in_constant_time(const Sha256& a, const Sha256& b);
/// Bytes of the operating system's generator for secrets, as base64url without padding.
[[nodiscard]] std::string random_text(std::size_t bytes);

}  // namespace kvist::net

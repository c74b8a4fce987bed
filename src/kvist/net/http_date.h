// Private to net: the time of an answer, as its head has it.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace kvist::net {

/// The field Date (RFC 9110, 6.6.1) as a line with its end. It is written once a second, into memory that is there, so
/// that an answer costs a look at the clock and a copy. Threads: one.
class HttpDate {
 public:
  /// "Date: Thu, 26 Nov 2026 03:17:30 GMT\r\n". Valid until the next call. Requires: the year has four digits.
  [[nodiscard]] std::string_view line(std::int64_t unix_seconds) {
    if (unix_seconds != written_) write(unix_seconds);
    return {line_.data(), line_.size()};
  }

 private:
  void write(std::int64_t unix_seconds);

  static constexpr std::string_view kForm = "Date: Thu, 01 Jan 1970 00:00:00 GMT\r\n";
  std::array<char, kForm.size()> line_ = {};
  std::int64_t written_ = -1;
};

}  // namespace kvist::net

#include "kvist/net/http_date.h"

#include <fmt/format.h>

#include <array>
#include <chrono>

namespace kvist::net {
namespace {

// Not the locale's: the words are the protocol's.
constexpr std::array kDays = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
constexpr std::array kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

}  // namespace

void HttpDate::write(std::int64_t unix_seconds) {
  const std::chrono::sys_seconds now{std::chrono::seconds(unix_seconds)};
  const auto day = std::chrono::floor<std::chrono::days>(now);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss time(now - day);
  fmt::format_to_n(line_.data(), line_.size(), "Date: {}, {:02} {} {:04} {:02}:{:02}:{:02} GMT\r\n",
                   kDays[std::chrono::weekday(day).c_encoding()], static_cast<unsigned>(date.day()),
                   kMonths[static_cast<unsigned>(date.month()) - 1], static_cast<int>(date.year()),
                   time.hours().count(), time.minutes().count(), time.seconds().count());
  written_ = unix_seconds;
}

}  // namespace kvist::net

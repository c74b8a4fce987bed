#include "kvist/render/figures.h"

#include <fmt/format.h>

#include <cmath>

namespace kvist::render {
namespace {

bool is_missing(std::optional<double> value) {
  return !value || !std::isfinite(*value);
}

std::string with_unit(std::optional<double> value, int decimals_of_large, std::string_view unit) {
  if (is_missing(value)) return std::string(kMissing);
  return fmt::format("{:.{}f}{}", *value, std::abs(*value) < 10 ? 2 : decimals_of_large, unit);
}

}  // namespace

std::string format_ms(std::optional<double> ms) {
  return with_unit(ms, 0, "ms");
}

std::string format_ms_as_s(std::optional<double> ms) {
  return with_unit(ms ? std::optional(*ms / 1e3) : std::nullopt, 1, "s");
}

std::string format_pct(std::optional<double> pct) {
  if (is_missing(pct)) return std::string(kMissing);
  const std::string text = fmt::format("{:.1f}%", *pct);
  return text == "-0.0%" ? "0.0%" : text;
}

std::string format_fixed(std::optional<double> value, int decimals) {
  return is_missing(value) ? std::string(kMissing) : fmt::format("{:.{}f}", *value, decimals);
}

std::string format_count(std::optional<std::uint64_t> count) {
  if (!count) return std::string(kMissing);
  std::string text = fmt::format("{}", *count);
  for (std::size_t i = text.size(); i > 3; i -= 3) text.insert(i - 3, 1, ',');
  return text;
}

std::string format_plain(double value) {
  if (!std::isfinite(value)) return std::string(kMissing);
  std::string text = fmt::format("{:.6f}", value);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

std::string format_duration(Duration duration) {
  const double seconds = to_seconds(duration);
  const double size = std::abs(seconds);
  if (size >= 0.1 || duration == Duration::zero()) return format_plain(seconds) + "s";
  if (size >= 1e-3) return format_plain(seconds * 1e3) + "ms";
  return format_plain(seconds * 1e6) + "us";
}

std::string format_utc(const std::string& iso8601) {
  if (iso8601.size() != 20 || iso8601[10] != 'T' || iso8601.back() != 'Z') return iso8601;
  return fmt::format("{} {} UTC", iso8601.substr(0, 10), iso8601.substr(11, 8));
}

std::optional<double> figure_of(const Distribution& distribution, double Distribution::* figure) {
  if (distribution.count == 0) return std::nullopt;
  return distribution.*figure;
}

}  // namespace kvist::render

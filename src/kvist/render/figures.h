// Formats numbers for reports. A missing or non-finite value is "-", never 0.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "kvist/base/statistics.h"
#include "kvist/base/time.h"

namespace kvist::render {

inline constexpr std::string_view kMissing = "-";

/// Milliseconds as published, whole ("271ms"); below 10 ms with two decimals, which scaled times need ("2.53ms").
[[nodiscard]] std::string format_ms(std::optional<double> ms);
/// The same value in seconds: "40.9s"; below 10 s with two decimals.
[[nodiscard]] std::string format_ms_as_s(std::optional<double> ms);
/// "17.9%".
[[nodiscard]] std::string format_pct(std::optional<double> pct);
/// A number with `decimals` decimals.
[[nodiscard]] std::string format_fixed(std::optional<double> value, int decimals);
/// A count with thousands separated by commas: "1,234,567".
[[nodiscard]] std::string format_count(std::optional<std::uint64_t> count);
/// A length of time without trailing zeros: "60s", "0.5s", "250us".
[[nodiscard]] std::string format_duration(Duration duration);
/// A number without trailing zeros: "10", "2.5".
[[nodiscard]] std::string format_plain(double value);
/// "2026-02-27T03:17:23Z" as "2026-02-27 03:17:23 UTC"; anything else stays as it is.
[[nodiscard]] std::string format_utc(const std::string& iso8601);

/// A figure of a distribution; nothing if it has no samples.
[[nodiscard]] std::optional<double> figure_of(const Distribution& distribution, double Distribution::* figure);

}  // namespace kvist::render

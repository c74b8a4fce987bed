#include <fmt/format.h>

#include <cmath>

#include "kvist/report/figures.h"
#include "kvist/report/level_figures.h"
#include "kvist/report/mode_names.h"
#include "kvist/report/sections.h"

namespace kvist::report {
namespace {

/// Improvements closer together than this, in percentage points, are called steady.
constexpr double kSteadyPoints = 2;

struct LevelValue {
  std::uint32_t concurrency = 0;
  double value = 0;
};

std::vector<LevelValue> ttft_improvements(const RunAnalysis& analysis) {
  std::vector<LevelValue> improvements;
  for (const std::uint32_t concurrency : analysis.concurrencies()) {
    const std::optional<double> pct =
        improvement_pct(analysis.find(analysis.modes()[0], concurrency),
                        analysis.find(analysis.modes()[1], concurrency), figure::ttft_p50_ms);
    if (pct) improvements.push_back({concurrency, *pct});
  }
  return improvements;
}

Text trend_item(const std::vector<LevelValue>& improvements) {
  Text text = {strong("Trend:")};
  if (improvements.size() < 2) {
    text.push_back({" fewer than two levels to compare."});
    return text;
  }
  const LevelValue& low = improvements.front();
  const LevelValue& high = improvements.back();
  const double change = high.value - low.value;
  const char* word = std::abs(change) < kSteadyPoints ? "stays about the same" : change < 0 ? "decreases" : "increases";
  text.push_back({" The TTFT improvement "});
  text.push_back(strong(word));
  text.push_back({fmt::format(" at higher concurrency ({} at {} -> {} at {}).", format_pct(low.value), low.concurrency,
                              format_pct(high.value), high.concurrency)});
  return text;
}

Text peak_item(const std::vector<LevelValue>& improvements) {
  Text text = {strong("Peak benefit:")};
  if (improvements.empty()) {
    text.push_back({" " + std::string(kMissing)});
    return text;
  }
  LevelValue peak = improvements.front();
  for (const LevelValue& level : improvements) {
    if (level.value > peak.value) peak = level;
  }
  text.push_back({fmt::format(" Concurrency {} shows the maximum p50 improvement at {}.", peak.concurrency,
                              format_pct(peak.value))});
  return text;
}

Text hit_rate_item(const RunAnalysis& analysis, spec::RoutingMode mode) {
  Text text = {strong(fmt::format("KV cache hit rate ({} mode):", short_name(mode)))};
  std::vector<LevelValue> rates;
  for (const std::uint32_t concurrency : analysis.concurrencies()) {
    const MeasuredLevel* level = analysis.find(mode, concurrency);
    if (level == nullptr || level->analysis.excluded || !level->analysis.hit_rate.client_pct) continue;
    rates.push_back({concurrency, *level->analysis.hit_rate.client_pct});
  }
  if (rates.empty()) {
    text.push_back({" " + std::string(kMissing)});
    return text;
  }
  LevelValue low = rates.front();
  LevelValue high = rates.front();
  double sum = 0;
  for (const LevelValue& rate : rates) {
    if (rate.value < low.value) low = rate;
    if (rate.value > high.value) high = rate;
    sum += rate.value;
  }
  text.push_back(
      {fmt::format(" {} (at {}) to {} (at {}), average {}.", format_pct(low.value), low.concurrency,
                   format_pct(high.value), high.concurrency, format_pct(sum / static_cast<double>(rates.size())))});
  return text;
}

/// Summed over the levels both modes have, so that the two sums stand for the same work.
Text prefilled_item(const RunAnalysis& analysis) {
  std::uint64_t sums[2] = {0, 0};
  std::size_t levels = 0;
  for (const std::uint32_t concurrency : analysis.concurrencies()) {
    const MeasuredLevel* baseline = analysis.find(analysis.modes()[0], concurrency);
    const MeasuredLevel* candidate = analysis.find(analysis.modes()[1], concurrency);
    if (baseline == nullptr || candidate == nullptr) continue;
    if (!baseline->analysis.prefilled_tokens || !candidate->analysis.prefilled_tokens) continue;
    sums[0] += *baseline->analysis.prefilled_tokens;
    sums[1] += *candidate->analysis.prefilled_tokens;
    ++levels;
  }
  Text text = {strong("Prefilled tokens:")};
  if (levels == 0) {
    text.push_back({" " + std::string(kMissing)});
    return text;
  }
  const double before = static_cast<double>(sums[0]);
  const double fewer = before > 0 ? (before - static_cast<double>(sums[1])) / before * 100 : 0;
  text.push_back(
      {fmt::format(" {} {}, {} {} over {} {} ({} {}).", short_name(analysis.modes()[0]), format_count(sums[0]),
                   short_name(analysis.modes()[1]), format_count(sums[1]), levels, levels == 1 ? "level" : "levels",
                   format_pct(std::abs(fewer)), fewer >= 0 ? "fewer" : "more")});
  return text;
}

Text improvement_item(const std::vector<LevelValue>& improvements, const char* which, std::uint32_t concurrency) {
  std::optional<double> value;
  for (const LevelValue& level : improvements) {
    if (level.concurrency == concurrency) value = level.value;
  }
  return {strong(fmt::format("TTFT p50 improvement at {} concurrency ({}):", which, concurrency)),
          {" " + format_pct(value)}};
}

}  // namespace

void add_summary(Document& document, const RunAnalysis& analysis) {
  const std::vector<LevelValue> improvements = ttft_improvements(analysis);
  document.push_back(Heading{2, "Summary"});
  document.push_back(Bullets{{
      improvement_item(improvements, "lowest", analysis.concurrencies().front()),
      improvement_item(improvements, "highest", analysis.concurrencies().back()),
      trend_item(improvements),
      peak_item(improvements),
      hit_rate_item(analysis, analysis.modes()[1]),
      hit_rate_item(analysis, analysis.modes()[0]),
      prefilled_item(analysis),
  }});
}

}  // namespace kvist::report

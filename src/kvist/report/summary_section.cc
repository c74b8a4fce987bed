#include <fmt/format.h>

#include <cmath>

#include "kvist/analysis/headline.h"
#include "kvist/analysis/mode_names.h"
#include "kvist/render/figures.h"
#include "kvist/report/estimate_text.h"
#include "kvist/report/sections.h"

namespace kvist::report {
namespace {

/// Gains that differ by less than this, in percentage points, or whose intervals overlap, are called steady.
constexpr double kSteadyPoints = 2;

struct LevelValue {
  std::uint32_t concurrency = 0;
  double value = 0;
  std::optional<Interval> interval = {};

  [[nodiscard]] std::string text() const { return gain_cell({.value = value, .interval = interval}); }
};

std::vector<LevelValue> ttft_improvements(const analysis::RunAnalysis& analysis) {
  std::vector<LevelValue> improvements;
  for (const std::uint32_t concurrency : analysis.concurrencies()) {
    const analysis::Estimate gain = analysis::gain_of(analysis.find(analysis.modes()[0], concurrency),
                                                      analysis.find(analysis.modes()[1], concurrency),
                                                      analysis::headline(analysis::Headline::kTtftP50));
    if (gain.value) improvements.push_back({concurrency, *gain.value, gain.interval});
  }
  return improvements;
}

render::Text trend_item(const std::vector<LevelValue>& improvements) {
  render::Text text = {render::strong("Trend:")};
  if (improvements.size() < 2) {
    text.push_back({" fewer than two levels to compare."});
    return text;
  }
  const LevelValue& low = improvements.front();
  const LevelValue& high = improvements.back();
  const double change = high.value - low.value;
  const bool overlap = low.interval && high.interval && low.interval->low <= high.interval->high &&
                       high.interval->low <= low.interval->high;
  const char* word = overlap || std::abs(change) < kSteadyPoints ? "stays about the same"
                     : change < 0                                ? "decreases"
                                                                 : "increases";
  text.push_back({" The gain in TTFT p50 "});
  text.push_back(render::strong(word));
  text.push_back({fmt::format(" at higher concurrency ({} at {} -> {} at {}).", low.text(), low.concurrency,
                              high.text(), high.concurrency)});
  return text;
}

render::Text peak_item(const std::vector<LevelValue>& improvements) {
  render::Text text = {render::strong("Peak benefit:")};
  if (improvements.empty()) {
    text.push_back({" " + std::string(render::kMissing)});
    return text;
  }
  LevelValue peak = improvements.front();
  for (const LevelValue& level : improvements) {
    if (level.value > peak.value) peak = level;
  }
  text.push_back(
      {fmt::format(" Concurrency {} shows the largest gain in TTFT p50, {}.", peak.concurrency, peak.text())});
  return text;
}

render::Text hit_rate_item(const analysis::RunAnalysis& analysis, const spec::Arm& mode) {
  render::Text text = {render::strong(fmt::format("KV cache hit rate ({} mode):", analysis::short_name(mode)))};
  std::vector<LevelValue> rates;
  for (const std::uint32_t concurrency : analysis.concurrencies()) {
    const analysis::MeasuredLevel* level = analysis.find(mode, concurrency);
    if (level == nullptr || level->analysis.excluded || !level->analysis.hit_rate.client_pct) continue;
    rates.push_back({concurrency, *level->analysis.hit_rate.client_pct});
  }
  if (rates.empty()) {
    text.push_back({" " + std::string(render::kMissing)});
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
  text.push_back({fmt::format(" {} (at {}) to {} (at {}), average {}.", render::format_pct(low.value), low.concurrency,
                              render::format_pct(high.value), high.concurrency,
                              render::format_pct(sum / static_cast<double>(rates.size())))});
  return text;
}

/// Summed over the levels that both modes have, so that the two sums cover the same work.
render::Text prefilled_item(const analysis::RunAnalysis& analysis) {
  std::uint64_t sums[2] = {0, 0};
  std::size_t levels = 0;
  for (const std::uint32_t concurrency : analysis.concurrencies()) {
    const analysis::MeasuredLevel* baseline = analysis.find(analysis.modes()[0], concurrency);
    const analysis::MeasuredLevel* candidate = analysis.find(analysis.modes()[1], concurrency);
    if (baseline == nullptr || candidate == nullptr) continue;
    if (!baseline->analysis.prefilled_tokens || !candidate->analysis.prefilled_tokens) continue;
    sums[0] += *baseline->analysis.prefilled_tokens;
    sums[1] += *candidate->analysis.prefilled_tokens;
    ++levels;
  }
  render::Text text = {render::strong("Prefilled tokens:")};
  if (levels == 0) {
    text.push_back({" " + std::string(render::kMissing)});
    return text;
  }
  const double before = static_cast<double>(sums[0]);
  const double fewer = before > 0 ? (before - static_cast<double>(sums[1])) / before * 100 : 0;
  text.push_back({fmt::format(" {} {}, {} {} over {} {} ({} {}).", analysis::short_name(analysis.modes()[0]),
                              render::format_count(sums[0]), analysis::short_name(analysis.modes()[1]),
                              render::format_count(sums[1]), levels, levels == 1 ? "level" : "levels",
                              render::format_pct(std::abs(fewer)), fewer >= 0 ? "fewer" : "more")});
  return text;
}

render::Text improvement_item(const std::vector<LevelValue>& improvements, const char* which,
                              std::uint32_t concurrency) {
  std::string gain(render::kMissing);
  for (const LevelValue& level : improvements) {
    if (level.concurrency == concurrency) gain = level.text();
  }
  return {render::strong(fmt::format("Gain in TTFT p50 at {} concurrency ({}):", which, concurrency)), {" " + gain}};
}

}  // namespace

void add_summary(render::Document& document, const analysis::RunAnalysis& analysis) {
  const std::vector<LevelValue> improvements = ttft_improvements(analysis);
  document.push_back(render::Heading{2, "Summary"});
  document.push_back(render::Bullets{{
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

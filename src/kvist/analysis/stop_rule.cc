#include "kvist/analysis/stop_rule.h"

#include <algorithm>
#include <cmath>

#include "kvist/analysis/headline.h"
#include "kvist/analysis/paired.h"

namespace kvist::analysis {
namespace {

/// More than an interval by Student's t needs. Whoever looks again and again and stops at the first interval that is
/// narrow stops where the pairs happen to lie close to each other. In 60,000 sweeps each the intervals so found
/// contained the truth in 90 % with three rounds at least, and in 92 to 95 % with five.
constexpr std::size_t kLeastRounds = 5;

/// The changes of the candidate against the baseline: percent of the baseline's mean, or points.
std::optional<std::vector<double>> changes_of(const std::vector<double>& baseline, const std::vector<double>& candidate,
                                              bool in_points) {
  double mean = 0;
  for (const double value : baseline) mean += value / static_cast<double>(baseline.size());
  if (!in_points && !(mean > 0)) return std::nullopt;
  std::vector<double> changes;
  for (std::size_t i = 0; i < baseline.size(); ++i) {
    const double change = candidate[i] - baseline[i];
    changes.push_back(in_points ? change : change / mean * 100);
  }
  return changes;
}

}  // namespace

std::optional<double> stop_figure(const spec::StopRule& rule, const results::LevelRecord& level,
                                  const spec::MethodSpec& method, Schedule schedule) {
  const std::optional<Headline> figure = spec::find_figure(rule.metric);
  const LevelAnalysis analysis = analyse(level, method, schedule);
  if (!figure || analysis.excluded) return std::nullopt;
  const std::optional<double> value = headline(*figure).figure(analysis);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

void StopWatch::add(const spec::Arm& arm, std::uint32_t concurrency, std::uint32_t repetition,
                    std::optional<double> figure) {
  const auto place = std::ranges::find(arms_, arm);
  if (place == arms_.end()) return;
  levels_[concurrency][repetition][static_cast<std::size_t>(place - arms_.begin())] = figure;
}

std::size_t StopWatch::rounds(std::uint32_t concurrency) const {
  const auto level = levels_.find(concurrency);
  if (level == levels_.end()) return 0;
  return static_cast<std::size_t>(
      std::ranges::count_if(level->second, [&](const auto& round) { return round.second.size() == arms_.size(); }));
}

std::optional<double> StopWatch::half_width(std::uint32_t concurrency) const {
  if (arms_.size() < 2 || rounds(concurrency) < kLeastRounds) return std::nullopt;
  const std::optional<Headline> figure = spec::find_figure(rule_.metric);
  const bool in_points = figure && headline(*figure).is_percentage();
  double widest = 0;
  for (std::size_t arm = 1; arm < arms_.size(); ++arm) {
    std::vector<double> baseline;
    std::vector<double> candidate;
    for (const auto& [repetition, round] : levels_.at(concurrency)) {
      if (round.size() != arms_.size()) continue;
      if (!round.at(0) || !round.at(arm)) return std::nullopt;
      baseline.push_back(*round.at(0));
      candidate.push_back(*round.at(arm));
    }
    const std::optional<std::vector<double>> changes = changes_of(baseline, candidate, in_points);
    if (!changes) return std::nullopt;
    const PairedChange change = mean_change(*changes);
    widest = std::max(widest, (change.high - change.low) / 2);
  }
  return widest;
}

bool StopWatch::is_narrow(std::uint32_t concurrency) const {
  const std::optional<double> width = half_width(concurrency);
  return width && *width <= rule_.half_width;
}

}  // namespace kvist::analysis

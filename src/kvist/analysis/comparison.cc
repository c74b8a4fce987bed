#include "kvist/analysis/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace kvist::analysis {
namespace {

using Pair = std::pair<const LevelAnalysis*, const LevelAnalysis*>;  // baseline, candidate

const Measurement* with_seed(const MeasuredLevel& level, const Measurement& other) {
  for (const Measurement& repetition : level.repetitions) {
    const bool is_same =
        repetition.record.repetition == other.record.repetition && repetition.record.seed == other.record.seed;
    if (is_same) return &repetition;
  }
  return nullptr;
}

/// The pairs that can be compared, and how many cannot for the candidate's errors.
std::vector<Pair> pairs_of(const MeasuredLevel& baseline, const MeasuredLevel& candidate, std::size_t& lost_to_errors) {
  std::vector<Pair> pairs;
  for (const Measurement& theirs : baseline.repetitions) {
    const Measurement* ours = with_seed(candidate, theirs);
    if (ours == nullptr || theirs.analysis.excluded) continue;
    if (ours->analysis.excluded) {
      ++lost_to_errors;
    } else {
      pairs.emplace_back(&theirs.analysis, &ours->analysis);
    }
  }
  return pairs;
}

double mean_of(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

FigureComparison compare_figure(const ComparedFigure& figure, const std::vector<Pair>& pairs, bool same_requests) {
  std::vector<double> baseline;
  std::vector<double> candidate;
  for (const auto& [theirs, ours] : pairs) {
    const std::optional<double> before = figure.figure().figure(*theirs);
    const std::optional<double> after = figure.figure().figure(*ours);
    if (!before || !after || !std::isfinite(*before) || !std::isfinite(*after)) continue;
    if (!figure.is_percentage() && (*before <= 0 || *after <= 0)) continue;
    baseline.push_back(*before);
    candidate.push_back(*after);
  }
  if (baseline.empty()) return {};
  FigureComparison result{.baseline = mean_of(baseline), .candidate = mean_of(candidate)};
  result.change = figure.is_percentage() ? paired_difference(baseline, candidate) : paired_ratio(baseline, candidate);
  // Several pairs of the same requests are one pair, which has no spread.
  if (same_requests) result.change = {.pairs = 1, .estimate = result.change.estimate};
  result.verdict = verdict_of(result.change, figure.no_change(), !figure.figure().larger_is_better);
  result.detectable = minimum_detectable(result.change, !figure.is_percentage());
  return result;
}

LevelComparison compare_level(const MeasuredLevel& baseline, const MeasuredLevel& candidate) {
  LevelComparison level{.mode = candidate.analysis.mode, .concurrency = candidate.analysis.concurrency};
  level.refused = objections_to_level(baseline, candidate);
  if (!level.refused.empty()) {
    for (FigureComparison& figure : level.figures) figure.verdict = PairedVerdict::kRefused;
    return level;
  }
  const std::vector<Pair> pairs = pairs_of(baseline, candidate, level.lost_to_errors);
  for (std::size_t i = 0; i < kComparedFigures.size(); ++i) {
    level.figures[i] = compare_figure(kComparedFigures[i], pairs, baseline.same_requests);
    if (level.lost_to_errors > 0) level.figures[i].verdict = PairedVerdict::kWorse;
  }
  return level;
}

}  // namespace

const FigureComparison* LevelComparison::find(std::string_view key) const {
  const auto found = std::ranges::find(kComparedFigures, key, &ComparedFigure::key);
  return found == kComparedFigures.end() ? nullptr
                                         : &figures[static_cast<std::size_t>(found - kComparedFigures.begin())];
}

const LevelComparison* RunComparison::find(const spec::Arm& mode, std::uint32_t concurrency) const {
  for (const LevelComparison& level : levels) {
    if (level.mode == mode && level.concurrency == concurrency) return &level;
  }
  return nullptr;
}

std::size_t RunComparison::count(const spec::Arm& mode, std::size_t figure, PairedVerdict verdict) const {
  return static_cast<std::size_t>(std::ranges::count_if(levels, [&](const LevelComparison& level) {
    return level.mode == mode && level.figures[figure].verdict == verdict;
  }));
}

Result<RunComparison> compare_modes(const RunAnalysis& analysis, std::optional<spec::Arm> baseline) {
  const std::vector<spec::Arm>& modes = analysis.modes();
  if (modes.empty()) return fail(ErrorCode::kInvalidArgument, "no mode was measured");
  RunComparison comparison{.name = analysis.run().name, .baseline = baseline.value_or(modes.front())};
  if (std::ranges::find(modes, comparison.baseline) == modes.end()) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("{}: the baseline {} was not measured", comparison.name, to_string(comparison.baseline)));
  }
  for (const spec::Arm& mode : modes) {
    if (mode == comparison.baseline) continue;
    comparison.modes.push_back(mode);
    for (const std::uint32_t concurrency : analysis.concurrencies()) {
      const MeasuredLevel* before = analysis.find(comparison.baseline, concurrency);
      const MeasuredLevel* after = analysis.find(mode, concurrency);
      if (before != nullptr && after != nullptr) comparison.levels.push_back(compare_level(*before, *after));
    }
  }
  return comparison;
}

std::vector<std::string> objections_to_level(const MeasuredLevel& baseline, const MeasuredLevel& candidate) {
  std::vector<std::string> objections;
  const bool any_pair = std::ranges::any_of(baseline.repetitions, [&](const Measurement& theirs) {
    return std::ranges::any_of(candidate.repetitions, [&](const Measurement& ours) {
      return ours.record.repetition == theirs.record.repetition;
    });
  });
  if (!any_pair) {
    return {fmt::format("other seeds: {} of {}, {} of {}: they did not drive the same conversations",
                        baseline.record.seed, baseline.analysis.mode.name(), candidate.record.seed,
                        candidate.analysis.mode.name())};
  }
  for (const Measurement& theirs : baseline.repetitions) {
    const auto ours = std::ranges::find_if(candidate.repetitions, [&](const Measurement& other) {
      return other.record.repetition == theirs.record.repetition;
    });
    if (ours == candidate.repetitions.end()) continue;
    for (std::string& text : objections_to_pair({.seed = theirs.record.seed,
                                                 .first_prompts = &theirs.analysis.first_prompts,
                                                 .objections = &theirs.analysis.objections},
                                                {.seed = ours->record.seed,
                                                 .first_prompts = &ours->analysis.first_prompts,
                                                 .objections = &ours->analysis.objections},
                                                {baseline.analysis.mode.name(), candidate.analysis.mode.name()})) {
      if (candidate.repetitions.size() > 1) text += fmt::format(" (repetition {})", theirs.record.repetition + 1);
      objections.push_back(std::move(text));
    }
  }
  return objections;
}

std::vector<std::string> refusals(const RunAnalysis& analysis) {
  std::vector<std::string> all;
  for (std::size_t mode = 1; mode < analysis.modes().size(); ++mode) {
    for (const std::uint32_t concurrency : analysis.concurrencies()) {
      const MeasuredLevel* before = analysis.find(analysis.modes().front(), concurrency);
      const MeasuredLevel* after = analysis.find(analysis.modes()[mode], concurrency);
      if (before == nullptr || after == nullptr) continue;
      for (const std::string& text : objections_to_level(*before, *after)) {
        all.push_back(fmt::format("{} at {}: {}", analysis.modes()[mode].name(), concurrency, text));
      }
    }
  }
  return all;
}

RunComparison only(RunComparison comparison, const std::vector<spec::Arm>& modes) {
  const auto is_other = [&](const spec::Arm& mode) { return std::ranges::find(modes, mode) == modes.end(); };
  std::erase_if(comparison.modes, is_other);
  std::erase_if(comparison.levels, [&](const LevelComparison& level) { return is_other(level.mode); });
  return comparison;
}

bool is_comparable(const RunAnalysis& analysis) {
  return analysis.modes().size() > 1 && analysis.repeated() && !analysis.same_requests();
}

}  // namespace kvist::analysis

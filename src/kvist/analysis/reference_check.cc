#include "kvist/analysis/reference_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace kvist::analysis {
namespace {

std::uint32_t batch_slots(const spec::SweepSpec& sweep) {
  std::uint32_t slots = 0;
  for (const spec::WorkerSpec& worker : sweep.deployment.workers) slots += worker.max_batch_size;
  return slots;
}

std::optional<double> deviation_of(const std::optional<Spread>& measured, double published, bool in_points) {
  if (!measured) return std::nullopt;
  if (in_points) return measured->mean - published;
  if (!(std::abs(published) > 0)) return std::nullopt;
  return (measured->mean - published) / published * 100;
}

/// How a level counts for a bar, and why if it does not.
void classify(const ReferenceCheck& check, const FigureCheck& figure, LevelDeviation& level) {
  if (const Exclusion* exclusion = check.rules.exclusion(figure.mode, level.concurrency, *figure.figure)) {
    level.use = LevelUse::kLeftOut;
    level.reason = exclusion->reason;
  } else if (!figure.bar) {
    level.use = LevelUse::kCounted;
  } else if (figure.bar->range_beyond_slots && level.concurrency > check.slots) {
    level.use = LevelUse::kRange;
    level.reason = fmt::format("beyond {} batch slots", check.slots);
  } else if (figure.bar->up_to && level.concurrency > *figure.bar->up_to) {
    level.use = LevelUse::kLeftOut;
    level.reason =
        figure.bar->reason.empty() ? fmt::format("the bar ends at {}", *figure.bar->up_to) : figure.bar->reason;
  }
}

void judge(FigureCheck& check) {
  double absolute = 0;
  double with_sign = 0;
  bool incomplete = false;
  for (const LevelDeviation& level : check.levels) {
    if (level.use == LevelUse::kCounted) {
      incomplete = incomplete || !level.deviation;
      if (!level.deviation) continue;
      ++check.counted;
      absolute += std::abs(*level.deviation);
      with_sign += *level.deviation;
    } else if (level.use == LevelUse::kRange) {
      incomplete = incomplete || !level.measured || level.measured->count < 2;
      ++check.range_levels;
      if (level.within_range) ++check.range_hits;
    }
  }
  if (check.counted > 0) {
    check.mean_absolute = absolute / static_cast<double>(check.counted);
    check.mean_signed = with_sign / static_cast<double>(check.counted);
  }
  if (!check.bar || check.counted + check.range_levels == 0) {
    check.verdict = Verdict::kNoBar;
  } else if (incomplete) {
    check.verdict = Verdict::kIncomplete;
  } else {
    const bool met = check.mean_absolute.value_or(0) <= check.bar->within_pct && check.range_hits == check.range_levels;
    check.verdict = met ? Verdict::kMet : Verdict::kMissed;
  }
}

FigureCheck check_figure(const RunAnalysis& analysis, const ReferenceCheck& check, const NamedFigure& named,
                         spec::RoutingMode mode) {
  FigureCheck result;
  result.mode = mode;
  result.figure = &named;
  if (const Bar* bar = check.rules.bar(named)) result.bar = *bar;
  for (const ReferenceFigures& published : check.reference.levels) {
    const std::optional<double> value = published.mode == mode ? published.figure(named) : std::nullopt;
    if (!value) continue;
    LevelDeviation level;
    level.concurrency = published.concurrency;
    level.published = *value;
    const MeasuredLevel* measured = analysis.find(stand_in(analysis, mode), published.concurrency);
    if (measured != nullptr) level.measured = measured->spread(named.figure);
    level.deviation = deviation_of(level.measured, *value, result.in_points());
    level.within_range = level.measured && *value >= level.measured->min && *value <= level.measured->max;
    classify(check, result, level);
    result.levels.push_back(std::move(level));
  }
  judge(result);
  return result;
}

}  // namespace

std::string_view to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::kMet:
      return "met";
    case Verdict::kMissed:
      return "missed";
    case Verdict::kNoBar:
      return "no bar";
    case Verdict::kIncomplete:
      return "incomplete";
  }
  return "incomplete";
}

std::size_t ReferenceCheck::count(Verdict verdict) const {
  return static_cast<std::size_t>(std::ranges::count(figures, verdict, &FigureCheck::verdict));
}

spec::RoutingMode stand_in(const RunAnalysis& analysis, spec::RoutingMode published) {
  const bool has_dynamo = std::ranges::find(analysis.modes(), spec::RoutingMode::kDynamo) != analysis.modes().end();
  return published == spec::RoutingMode::kKv && has_dynamo ? spec::RoutingMode::kDynamo : published;
}

ReferenceCheck check_against(const RunAnalysis& analysis, Reference reference, CheckRules rules) {
  ReferenceCheck check{.reference = std::move(reference),
                       .rules = std::move(rules),
                       .slots = batch_slots(analysis.sweep()),
                       .figures = {}};
  for (const NamedFigure& named : published_figures()) {
    for (const spec::RoutingMode mode : check.reference.modes()) {
      FigureCheck figure = check_figure(analysis, check, named, mode);
      if (!figure.levels.empty()) check.figures.push_back(std::move(figure));
    }
  }
  return check;
}

}  // namespace kvist::analysis

#include "kvist/planning/level_judge.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "kvist/base/check.h"
#include "kvist/base/student_t.h"
#include "kvist/sweep/parallel.h"

namespace kvist::planning {
namespace {

ObjectiveEstimate estimate(const Objective& objective, const std::vector<LevelFigures>& samples, double confidence) {
  ObjectiveEstimate estimate{.objective = objective, .figure = std::nullopt, .verdict = Verdict::kBreaks};
  std::vector<double> values;
  for (const LevelFigures& sample : samples) {
    if (!sample[objective.metric]) return estimate;
    values.push_back(*sample[objective.metric]);
  }
  estimate.figure = mean_interval(values, confidence);
  estimate.verdict = estimate.figure->high <= objective.limit ? Verdict::kHolds
                     : estimate.figure->low > objective.limit ? Verdict::kBreaks
                                                              : Verdict::kUndecided;
  return estimate;
}

/// A figure as a share of its limit; 1 is the limit itself.
double share_of_limit(const ObjectiveEstimate& estimate) {
  if (!estimate.figure) return std::numeric_limits<double>::infinity();
  if (estimate.objective.limit > 0) return estimate.figure->mean / estimate.objective.limit;
  return estimate.figure->mean > 0 ? std::numeric_limits<double>::infinity() : 0;
}

}  // namespace

MeanInterval mean_interval(std::span<const double> samples, double confidence) {
  KVIST_CHECK(!samples.empty() && confidence >= 0.5 && confidence < 1, "no interval without samples");
  const double n = static_cast<double>(samples.size());
  double sum = 0;
  for (const double sample : samples) sum += sample;
  const double mean = sum / n;
  if (samples.size() == 1) {
    return {mean, -std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()};
  }
  double squares = 0;
  for (const double sample : samples) squares += (sample - mean) * (sample - mean);
  const double half = student_t_quantile(confidence, samples.size() - 1) * std::sqrt(squares / (n - 1)) / std::sqrt(n);
  return {mean, mean - half, mean + half};
}

bool Judgement::holds_on_average() const {
  return std::ranges::all_of(
      objectives, [](const ObjectiveEstimate& one) { return one.figure && one.figure->mean <= one.objective.limit; });
}

const ObjectiveEstimate& Judgement::tightest() const {
  KVIST_CHECK(!objectives.empty(), "a judgement has objectives");
  return *std::ranges::max_element(objectives, {}, share_of_limit);
}

std::optional<double> Judgement::mean(Metric metric) const {
  double sum = 0;
  std::size_t count = 0;
  for (const LevelFigures& sample : samples) {
    if (!sample[metric]) continue;
    sum += *sample[metric];
    ++count;
  }
  return count == 0 ? std::nullopt : std::optional(sum / static_cast<double>(count));
}

Judgement judge_samples(std::uint32_t users, std::vector<LevelFigures> samples, const Slo& slo, double confidence) {
  Judgement judgement{.users = users, .samples = std::move(samples), .objectives = {}, .verdict = Verdict::kHolds};
  for (const Objective& objective : slo) {
    const ObjectiveEstimate& one =
        judgement.objectives.emplace_back(estimate(objective, judgement.samples, confidence));
    if (one.verdict == Verdict::kBreaks) {
      judgement.verdict = Verdict::kBreaks;
    } else if (one.verdict == Verdict::kUndecided && judgement.verdict == Verdict::kHolds) {
      judgement.verdict = Verdict::kUndecided;
    }
  }
  return judgement;
}

Result<Judgement> judge_level(const LevelEvaluator& evaluator, const spec::SweepSpec& sweep, spec::RoutingMode mode,
                              std::uint32_t users, const Slo& slo, const JudgeOptions& options) {
  KVIST_CHECK(!options.looks.empty(), "at least one look is needed");
  const double confidence = 1 - (1 - options.confidence) / static_cast<double>(options.looks.size());
  std::vector<LevelFigures> samples;
  Judgement judgement;
  for (const std::uint32_t look : options.looks) {
    const std::size_t known = samples.size();
    std::vector<Result<LevelFigures>> fresh(look - known);
    sweep::for_each_index(fresh.size(), options.threads, [&](std::size_t i) {
      const std::uint64_t seed = level_seed(sweep, users, static_cast<std::uint32_t>(known + i));
      fresh[i] = evaluator.evaluate(sweep, {.mode = mode, .concurrency = users, .seed = seed});
    });
    for (Result<LevelFigures>& one : fresh) {
      KVIST_TRY(const LevelFigures figures, std::move(one));
      samples.push_back(figures);
    }
    judgement = judge_samples(users, samples, slo, confidence);
    if (judgement.verdict != Verdict::kUndecided) break;
  }
  return judgement;
}

}  // namespace kvist::planning

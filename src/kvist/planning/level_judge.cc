#include "kvist/planning/level_judge.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "kvist/base/check.h"
#include "kvist/base/student_t.h"
#include "kvist/planning/block_interval.h"
#include "kvist/sweep/parallel.h"

namespace kvist::planning {
namespace {

constexpr double kUnbounded = std::numeric_limits<double>::infinity();

Verdict verdict_of(const Objective& objective, const MeanInterval& figure) {
  const bool low_is_allowed = objective.allows(figure.low);
  const bool high_is_allowed = objective.allows(figure.high);
  return low_is_allowed && high_is_allowed   ? Verdict::kHolds
         : low_is_allowed || high_is_allowed ? Verdict::kUndecided
                                             : Verdict::kBreaks;
}

ObjectiveEstimate estimate(const Objective& objective, const std::vector<LevelFigures>& samples, double confidence) {
  ObjectiveEstimate estimate{.objective = objective, .figure = {}, .verdict = Verdict::kUnknown};
  std::vector<double> values;
  for (const LevelFigures& sample : samples) {
    if (const std::optional<double>& value = sample[objective.figure]) values.push_back(*value);
  }
  estimate.seeds_without = samples.size() - values.size();
  if (estimate.seeds_without > 0) return estimate;
  estimate.figure = mean_interval(values, confidence);
  estimate.verdict = verdict_of(objective, *estimate.figure);
  return estimate;
}

std::vector<BlockSamples> blocks_of_all(const std::vector<LevelSample>& samples) {
  std::vector<BlockSamples> blocks;
  for (const LevelSample& sample : samples) {
    if (sample.blocks) blocks.push_back(*sample.blocks);
  }
  return blocks;
}

/// Replaces the bounds over seeds by those over blocks of time.
void bound_by_blocks(ObjectiveEstimate& estimate, const std::vector<BlockSamples>& replays, double confidence) {
  const double mean = estimate.figure->mean;
  const std::optional<BlockInterval> interval = block_interval(replays, estimate.objective.figure, confidence);
  estimate.blocks = interval ? interval->blocks : 0;
  if (!interval) {
    estimate.figure = MeanInterval{mean, -kUnbounded, kUnbounded};
    estimate.verdict = estimate.objective.allows(mean) ? Verdict::kHolds : Verdict::kBreaks;
    return;
  }
  const double most = analysis::headline(estimate.objective.figure).is_percentage() ? 100 : kUnbounded;
  estimate.figure = MeanInterval{mean, std::max(0.0, mean - interval->below), std::min(most, mean + interval->above)};
  estimate.verdict = verdict_of(estimate.objective, *estimate.figure);
}

std::vector<LevelFigures> whole_windows(const std::vector<LevelSample>& samples) {
  std::vector<LevelFigures> figures;
  for (const LevelSample& sample : samples) figures.push_back(sample.figures);
  return figures;
}

/// How far a figure is on the way to its limit; 1 is the limit itself, and beyond it is above 1.
double share_of_limit(const ObjectiveEstimate& estimate) {
  if (!estimate.figure) return 0;
  const bool is_least = estimate.objective.is_least();
  const double part = is_least ? estimate.objective.limit : estimate.figure->mean;
  const double whole = is_least ? estimate.figure->mean : estimate.objective.limit;
  if (whole > 0) return part / whole;
  return part > 0 ? std::numeric_limits<double>::infinity() : 0;
}

bool is_within(const ObjectiveEstimate& one) {
  return one.figure && one.objective.allows(one.figure->mean);
}

/// A level breaks an SLO as soon as one figure is surely beyond its limit, whatever is not known of the others.
Verdict together(Verdict all, Verdict one) {
  for (const Verdict worst : {Verdict::kBreaks, Verdict::kUnknown, Verdict::kUndecided}) {
    if (all == worst || one == worst) return worst;
  }
  return Verdict::kHolds;
}

}  // namespace

MeanInterval mean_interval(std::span<const double> samples, double confidence) {
  KVIST_CHECK(!samples.empty() && confidence >= 0.5 && confidence < 1, "no interval without samples");
  const double n = static_cast<double>(samples.size());
  double sum = 0;
  for (const double sample : samples) sum += sample;
  const double mean = sum / n;
  if (samples.size() == 1) {
    return {mean, -kUnbounded, kUnbounded};
  }
  double squares = 0;
  for (const double sample : samples) squares += (sample - mean) * (sample - mean);
  const double half = student_t_quantile(confidence, samples.size() - 1) * std::sqrt(squares / (n - 1)) / std::sqrt(n);
  return {mean, mean - half, mean + half};
}

bool Judgement::holds_on_average() const {
  return std::ranges::all_of(objectives, is_within);
}

bool Judgement::lacks_load() const {
  if (holds_on_average()) return false;
  // Where nothing came out and no turn ended, whether well or not, nothing was asked: figures are missing for that.
  const std::optional<double> throughput = mean(Headline::kThroughput);
  const bool is_idle = throughput && *throughput <= 0 && !mean(Headline::kErrorPct);
  const bool asks_for_load = std::ranges::any_of(
      objectives, [](const ObjectiveEstimate& one) { return one.objective.needs_load() && !is_within(one); });
  return asks_for_load && std::ranges::all_of(objectives, [&](const ObjectiveEstimate& one) {
           return is_within(one) || (one.figure ? one.objective.needs_load() : is_idle);
         });
}

bool Judgement::lacks_interval() const {
  const auto is_by_mean = [](const ObjectiveEstimate& one) { return one.blocks == 0; };
  const auto surely_breaks = [&](const ObjectiveEstimate& one) {
    return one.verdict == Verdict::kBreaks && !is_by_mean(one);
  };
  return std::ranges::any_of(objectives, is_by_mean) && std::ranges::none_of(objectives, surely_breaks);
}

bool Judgement::doubts_only_load() const {
  return verdict == Verdict::kUndecided && std::ranges::all_of(objectives, [](const ObjectiveEstimate& one) {
           return one.verdict == Verdict::kHolds || one.objective.needs_load();
         });
}

const ObjectiveEstimate& Judgement::unknown() const {
  const auto found = std::ranges::find(objectives, Verdict::kUnknown, &ObjectiveEstimate::verdict);
  KVIST_CHECK(found != objectives.end(), "every figure of the level is known");
  return *found;
}

const ObjectiveEstimate& Judgement::tightest() const {
  KVIST_CHECK(!objectives.empty(), "a judgement has objectives");
  return *std::ranges::max_element(objectives, {}, share_of_limit);
}

std::optional<double> Judgement::mean(Headline figure) const {
  double sum = 0;
  std::size_t count = 0;
  for (const LevelFigures& sample : samples) {
    if (!sample[figure]) continue;
    sum += *sample[figure];
    ++count;
  }
  return count == 0 ? std::nullopt : std::optional(sum / static_cast<double>(count));
}

Judgement judge_samples(std::uint32_t users, std::vector<LevelFigures> samples, const Slo& slo, double confidence) {
  Judgement judgement{.users = users, .samples = std::move(samples), .objectives = {}, .verdict = Verdict::kHolds};
  for (const Objective& objective : slo) {
    judgement.objectives.push_back(estimate(objective, judgement.samples, confidence));
    judgement.verdict = together(judgement.verdict, judgement.objectives.back().verdict);
  }
  return judgement;
}

Judgement judge_replays(std::uint32_t users, const std::vector<LevelSample>& samples, const Slo& slo,
                        double confidence) {
  Judgement judgement = judge_samples(users, whole_windows(samples), slo, confidence);
  judgement.verdict = Verdict::kHolds;
  const std::vector<BlockSamples> replays = blocks_of_all(samples);
  for (ObjectiveEstimate& one : judgement.objectives) {
    if (one.figure) bound_by_blocks(one, replays, confidence);
    judgement.verdict = together(judgement.verdict, one.verdict);
  }
  return judgement;
}

Result<Judgement> judge_level(const LevelEvaluator& evaluator, const spec::SweepSpec& sweep, spec::RoutingMode mode,
                              std::uint32_t users, const Slo& slo, const JudgeOptions& options) {
  KVIST_CHECK(!options.looks.empty(), "at least one look is needed");
  const std::size_t tests = options.same_requests ? 1 : options.looks.size();
  const double confidence = 1 - (1 - options.confidence) / static_cast<double>(tests);
  std::vector<LevelSample> samples;
  Judgement judgement;
  for (const std::uint32_t look : options.looks) {
    const std::size_t known = samples.size();
    std::vector<Result<LevelSample>> fresh(look - known);
    sweep::for_each_index(fresh.size(), options.threads, [&](std::size_t i) {
      const std::uint64_t seed = level_seed(sweep, users, static_cast<std::uint32_t>(known + i));
      fresh[i] = evaluator.evaluate(sweep, {.mode = mode, .concurrency = users, .seed = seed});
    });
    for (Result<LevelSample>& one : fresh) {
      KVIST_TRY(LevelSample sample, std::move(one));
      samples.push_back(std::move(sample));
    }
    if (options.same_requests) return judge_replays(users, samples, slo, confidence);
    judgement = judge_samples(users, whole_windows(samples), slo, confidence);
    if (judgement.verdict != Verdict::kUndecided) break;
  }
  return judgement;
}

}  // namespace kvist::planning

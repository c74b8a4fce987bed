// Decides whether a level satisfies an SLO, with as many seeds as the decision needs.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/planning/level_evaluator.h"
#include "kvist/planning/slo.h"

namespace kvist::planning {

/// The confidence and cost of a decision.
struct JudgeOptions {
  /// Numbers of seeds after which a decision is tried, ascending. After the last one the level stays undecided.
  std::vector<std::uint32_t> looks = {3, 5, 8, 12};
  /// The confidence of the whole decision. Each test gets its share of the error (Bonferroni), because repeated tests
  /// would otherwise find significant results by chance.
  double confidence = 0.95;
  /// The seeds of a level simulate the same recorded requests and change only texts. Then they are one sample of the
  /// load, of which more seeds tell no more: the first look decides, by blocks of time (judge_replays()).
  bool same_requests = false;
  unsigned threads = 0;  ///< for the seeds of a test; 0: one per core. Only affects the time
};

/// Of a replay with too few turns for an interval (Judgement::lacks_interval), the mean stands for it.
enum class Verdict {
  kHolds,      ///< every figure is within its limit, with the whole of its interval
  kBreaks,     ///< some figure is beyond its limit, with the whole of its interval
  kUndecided,  ///< neither, after all seeds
  kUnknown,    ///< none is surely beyond its limit, and some figure was not measured: nobody can say
};

/// A mean with its interval: with the given confidence the true mean is above `low`, and with the same confidence it is
/// below `high` (two one-sided bounds).
struct MeanInterval {
  double mean = 0;
  double low = 0;
  double high = 0;
};
/// By Student's t over independent samples. A single sample has no spread, so its bounds are infinite. Requires: at
/// least one sample; 0.5 <= confidence < 1.
[[nodiscard]] MeanInterval mean_interval(std::span<const double> samples, double confidence);

/// One objective at one level.
struct ObjectiveEstimate {
  Objective objective;
  /// Over the seeds; nothing if a seed does not have the figure. Its bounds are infinite where neither seeds nor blocks
  /// of time tell of a spread.
  std::optional<MeanInterval> figure;
  std::size_t seeds_without = 0;  ///< that do not have it
  Verdict verdict = Verdict::kUndecided;
  /// Over how many blocks of time the bounds are; 0: too few have the figure, and the verdict is that of the mean.
  /// Nothing: seeds are independent, and the bounds are over them.
  std::optional<std::size_t> blocks = {};
};

/// A level with the figures of its seeds and the verdict.
struct Judgement {
  std::uint32_t users = 0;
  std::vector<LevelFigures> samples;  ///< one per seed
  std::vector<ObjectiveEstimate> objectives;
  Verdict verdict = Verdict::kUndecided;

  /// Whether every mean is known and within its limit.
  [[nodiscard]] bool holds_on_average() const;
  /// Whether on average it breaks only objectives that more load would satisfy. A level within which nothing happened
  /// lacks load too, although other figures are not known of it.
  [[nodiscard]] bool lacks_load() const;
  /// Whether it is undecided, and only for objectives that more load would satisfy.
  [[nodiscard]] bool doubts_only_load() const;
  /// Whether the verdict depends on a figure that was judged by its mean alone, for want of an interval.
  [[nodiscard]] bool lacks_interval() const;
  /// The known objective that is farthest beyond, or closest to, its limit.
  [[nodiscard]] const ObjectiveEstimate& tightest() const;
  /// The first objective whose figure is not known. Requires: verdict == kUnknown.
  [[nodiscard]] const ObjectiveEstimate& unknown() const;
  /// Mean of a figure over the seeds that have it.
  [[nodiscard]] std::optional<double> mean(Headline figure) const;
};

/// Judges the independent samples of a level. A figure that some sample does not have is unknown: it is neither within
/// its limit nor beyond it. Requires: at least one sample.
[[nodiscard]] Judgement judge_samples(std::uint32_t users, std::vector<LevelFigures> samples, const Slo& slo,
                                      double confidence);
/// The same of samples that replay the same requests. A figure is their mean, and its interval is over blocks of time
/// (block_interval()). Where too few turns leave none, the mean decides.
[[nodiscard]] Judgement judge_replays(std::uint32_t users, const std::vector<LevelSample>& samples, const Slo& slo,
                                      double confidence);

/// Judges a level with seeds from level_seed(), those of a test in parallel.
[[nodiscard]] Result<Judgement> judge_level(const LevelEvaluator& evaluator, const spec::SweepSpec& sweep,
                                            spec::RoutingMode mode, std::uint32_t users, const Slo& slo,
                                            const JudgeOptions& options);

}  // namespace kvist::planning

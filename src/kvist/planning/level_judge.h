// Whether a level holds its SLO, asked of as many seeds as the answer needs.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/planning/confidence.h"
#include "kvist/planning/level_evaluator.h"
#include "kvist/planning/slo.h"

namespace kvist::planning {

/// How sure an answer must be, and what it may cost.
struct JudgeOptions {
  /// Seeds after which a level is looked at, ascending; with the last look it stays undecided.
  std::vector<std::uint32_t> looks = {3, 5, 8, 12};
  /// Of the whole decision: each look has its share of the error (Bonferroni), because looking again and again until
  /// the answer is clear would otherwise find clear answers by chance.
  double confidence = 0.95;
  unsigned threads = 0;  ///< for the seeds of a look; 0: one per core. Changes nothing but the time
};

enum class Verdict {
  kHolds,      ///< every figure's upper bound is within its limit
  kBreaks,     ///< some figure's lower bound is above its limit
  kUndecided,  ///< neither, after all seeds
};

/// One objective at one level.
struct ObjectiveEstimate {
  Objective objective;
  std::optional<MeanInterval> figure;  ///< over the seeds; nothing where a seed has no such figure
  Verdict verdict = Verdict::kUndecided;
};

/// A level and what its seeds say.
struct Judgement {
  std::uint32_t users = 0;
  std::vector<LevelFigures> samples;  ///< one per seed
  std::vector<ObjectiveEstimate> objectives;
  Verdict verdict = Verdict::kUndecided;

  /// The best guess: every mean is within its limit.
  [[nodiscard]] bool holds_on_average() const;
  /// The objective that is farthest above, or closest to, its limit.
  [[nodiscard]] const ObjectiveEstimate& tightest() const;
  /// Mean of a figure over the seeds that have it.
  [[nodiscard]] std::optional<double> mean(Metric metric) const;
};

/// What the samples of a level say. A missing figure breaks its objective: no turn ended, so nobody was served.
/// Requires at least one sample.
[[nodiscard]] Judgement judge_samples(std::uint32_t users, std::vector<LevelFigures> samples, const Slo& slo,
                                      double confidence);

/// Judges a level with seeds from level_seed(), those of a look in parallel.
[[nodiscard]] Result<Judgement> judge_level(const LevelEvaluator& evaluator, const spec::SweepSpec& sweep,
                                            spec::RoutingMode mode, std::uint32_t users, const Slo& slo,
                                            const JudgeOptions& options);

}  // namespace kvist::planning

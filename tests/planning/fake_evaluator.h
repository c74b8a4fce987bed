// Levels computed by a formula, for tests of the planning code.
#pragma once

#include <algorithm>
#include <atomic>
#include <functional>
#include <utility>
#include <vector>

#include "kvist/base/random.h"
#include "kvist/base/statistics.h"
#include "kvist/planning/level_evaluator.h"

namespace kvist::planning {

/// Answers with a function of the arguments; counts the questions.
class FakeEvaluator final : public LevelEvaluator {
 public:
  using Formula = std::function<Result<LevelFigures>(const spec::SweepSpec&, const simulation::LevelPlan&)>;
  explicit FakeEvaluator(Formula formula) : formula_(std::move(formula)) {}

  Result<LevelSample> evaluate(const spec::SweepSpec& sweep, const simulation::LevelPlan& level) const override {
    ++questions;
    KVIST_TRY(LevelFigures figures, formula_(sweep, level));
    return LevelSample{.figures = std::move(figures)};
  }

  mutable std::atomic<int> questions = 0;

 private:
  Formula formula_;
};

/// The same for levels that replay a trace: its formula gives the blocks too.
class FakeReplay final : public LevelEvaluator {
 public:
  using Formula = std::function<LevelSample(const spec::SweepSpec&, const simulation::LevelPlan&)>;
  explicit FakeReplay(Formula formula) : formula_(std::move(formula)) {}

  Result<LevelSample> evaluate(const spec::SweepSpec& sweep, const simulation::LevelPlan& level) const override {
    ++questions;
    return formula_(sweep, level);
  }

  mutable std::atomic<int> questions = 0;

 private:
  Formula formula_;
};

/// The times of a level whose TPOT p95 and TTFT p95 are given, by both definitions alike; nothing fails.
inline LevelFigures figures_with(double ttft_p95_ms, double tpot_p95_ms) {
  LevelFigures figures;
  const auto set = [&](Metric metric, double value) {
    figures[metric] = value;
    for (std::size_t i = 0; i < analysis::kHeadlines; ++i) {
      if (analysis::headline_figures()[i].published == metric) figures[static_cast<Headline>(i)] = value;
    }
  };
  set(Metric::kTtftP50, ttft_p95_ms / 2);
  set(Metric::kTtftP95, ttft_p95_ms);
  set(Metric::kTpotP50, tpot_p95_ms * 0.95);
  set(Metric::kTpotP95, tpot_p95_ms);
  set(Metric::kLatencyP50, ttft_p95_ms / 2 + 840 * tpot_p95_ms * 0.95);
  set(Metric::kLatencyP95, ttft_p95_ms + 1'000 * tpot_p95_ms);
  set(Metric::kErrorPct, 0);
  return figures;
}

/// A level whose turns have these TTFT, in each block of time. Nothing fails.
inline LevelSample replay_of(const std::vector<std::vector<double>>& ttft_ms) {
  LevelSample sample;
  BlockSamples& blocks = sample.blocks.emplace();
  std::vector<double> all;
  for (std::uint32_t block = 0; block < ttft_ms.size(); ++block) {
    for (const double value : ttft_ms[block]) {
      all.push_back(value);
      blocks.of(Timing::kTtft).push_back({static_cast<float>(value), block});
      blocks.of(Timing::kTpot).push_back({30, block});
    }
    blocks.of(Headline::kErrorPct).push_back({.value = 0, .weight = static_cast<double>(ttft_ms[block].size())});
  }
  std::ranges::sort(blocks.of(Timing::kTtft), {}, &BlockSample::value);
  std::ranges::sort(all);
  blocks.turns = all.size();
  sample.figures = figures_with(quantile_of_sorted(all, 0.95), 30);
  return sample;
}

/// Ten blocks of fifty turns each, of TTFT `ttft_ms` times the factor of its block.
inline LevelSample uneven_replay(double ttft_ms, const std::vector<double>& factors) {
  std::vector<std::vector<double>> blocks;
  for (const double factor : factors) {
    std::vector<double>& block = blocks.emplace_back();
    for (int i = 0; i < 50; ++i) block.push_back(ttft_ms * factor * (0.75 + 0.01 * i));
  }
  return replay_of(blocks);
}

/// `value` times a factor around 1 that follows from the level's seed.
inline double scattered(double value, double relative_deviation, const simulation::LevelPlan& level) {
  RandomStream random(level.seed);
  return value * random.normal(1, relative_deviation);
}

/// Three workers of 64 batch slots.
inline spec::SweepSpec three_workers() {
  spec::SweepSpec sweep;
  sweep.name = "fake";
  sweep.deployment.workers.resize(3);
  sweep.modes = {spec::RoutingMode::kRoundRobin, spec::RoutingMode::kKv};
  sweep.levels = {40, 80};
  return sweep;
}

}  // namespace kvist::planning

#include "kvist/analysis/headline.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kvist/analysis/comparison.h"
#include "kvist/analysis/paired.h"
#include "kvist/base/student_t.h"
#include "kvist/render/figures.h"

namespace kvist::analysis {
namespace {

/// With fewer repetitions, Student's t has so few degrees of freedom that its interval says nothing.
constexpr std::size_t kLeastRepetitionsForT = 3;

template <Distribution ExactFigures::* kMetric, double Distribution::* kFigure>
std::optional<double> exact(const LevelAnalysis& a) {
  return render::figure_of(a.exact.*kMetric, kFigure);
}

constexpr auto kP50 = &Distribution::p50;
constexpr auto kP95 = &Distribution::p95;
constexpr auto kP99 = &Distribution::p99;

/// If turns of earlier levels end in this one (spec::BetweenLevels::kContinue), the level's own turns do not tell a
/// rate; the snapshots do.
std::optional<double> rate(const LevelAnalysis& a, std::optional<double> ExactFigures::* exact_rate,
                           SnapshotMean PublishedFigures::* by_snapshots) {
  return a.exact.lacks_earlier_turns ? (a.published.*by_snapshots).mean : a.exact.*exact_rate;
}

std::vector<const Measurement*> counted(const MeasuredLevel& level) {
  std::vector<const Measurement*> all;
  for (const Measurement& repetition : level.repetitions) {
    if (level.counts(repetition)) all.push_back(&repetition);
  }
  return all;
}

Interval t_interval(const std::vector<double>& values) {
  const Distribution d = describe(values);
  const double half = student_t_quantile(0.5 + kPairedConfidence / 2, d.count - 1) * d.standard_deviation /
                      std::sqrt(static_cast<double>(d.count));
  return {.low = d.mean - half, .high = d.mean + half};
}

/// Replicate by replicate the mean over repetitions; empty if one has none.
std::vector<float> mean_replicates(const std::vector<const Measurement*>& repetitions, ExactPercentile percentile) {
  std::vector<float> means;
  for (const Measurement* repetition : repetitions) {
    const std::vector<float>& own = repetition->analysis.replicates[static_cast<std::size_t>(percentile)];
    if (own.empty()) return {};
    if (means.empty()) means.assign(own.size(), 0);
    means.resize(std::min(means.size(), own.size()));
    for (std::size_t i = 0; i < means.size(); ++i) means[i] += own[i] / static_cast<float>(repetitions.size());
  }
  return means;
}

struct Pairs {
  std::vector<const Measurement*> baseline;
  std::vector<const Measurement*> candidate;
};

Pairs pairs_of(const MeasuredLevel& baseline, const MeasuredLevel& candidate) {
  Pairs pairs;
  const std::vector<const Measurement*> ours = counted(candidate);
  for (const Measurement* theirs : counted(baseline)) {
    const auto same = std::ranges::find_if(ours, [&](const Measurement* other) {
      return other->record.repetition == theirs->record.repetition && other->record.seed == theirs->record.seed;
    });
    if (same == ours.end()) continue;
    pairs.baseline.push_back(theirs);
    pairs.candidate.push_back(*same);
  }
  return pairs;
}

std::optional<Interval> gain_interval(const Pairs& pairs, const HeadlineFigure& figure, double baseline_mean) {
  if (pairs.baseline.size() >= kLeastRepetitionsForT) {
    std::vector<double> gains;
    for (std::size_t i = 0; i < pairs.baseline.size(); ++i) {
      const std::optional<double> before = figure.figure(pairs.baseline[i]->analysis);
      const std::optional<double> after = figure.figure(pairs.candidate[i]->analysis);
      if (before && after) gains.push_back((*before - *after) / baseline_mean * 100);
    }
    if (gains.size() < kLeastRepetitionsForT) return std::nullopt;
    return t_interval(gains);
  }
  if (!figure.percentile) return std::nullopt;
  const std::vector<float> before = mean_replicates(pairs.baseline, *figure.percentile);
  const std::vector<float> after = mean_replicates(pairs.candidate, *figure.percentile);
  std::vector<float> gains;
  for (std::size_t i = 0; i < std::min(before.size(), after.size()); ++i) {
    gains.push_back((before[i] - after[i]) / before[i] * 100);
  }
  return interval_of(std::move(gains));
}

}  // namespace

const std::array<HeadlineFigure, kHeadlines>& headline_figures() {
  using E = ExactFigures;
  static constexpr std::array<HeadlineFigure, kHeadlines> kFigures = {{
      {"ttft_p50_ms", "TTFT p50", "ms", 1, exact<&E::ttft_ms, kP50>, ExactPercentile::kTtftP50, Metric::kTtftP50},
      {"ttft_p95_ms", "TTFT p95", "ms", 1, exact<&E::ttft_ms, kP95>, ExactPercentile::kTtftP95, Metric::kTtftP95},
      {"ttft_p99_ms", "TTFT p99", "ms", 1, exact<&E::ttft_ms, kP99>, ExactPercentile::kTtftP99, {}},
      {"tpot_p50_ms", "TPOT p50", "ms", 1, exact<&E::tpot_ms, kP50>, ExactPercentile::kTpotP50, Metric::kTpotP50},
      {"tpot_p95_ms", "TPOT p95", "ms", 1, exact<&E::tpot_ms, kP95>, ExactPercentile::kTpotP95, Metric::kTpotP95},
      {"itl_p50_ms", "ITL p50", "ms", 1, exact<&E::itl_ms, kP50>, ExactPercentile::kItlP50, {}},
      {"itl_p95_ms", "ITL p95", "ms", 1, exact<&E::itl_ms, kP95>, ExactPercentile::kItlP95, {}},
      {"itl_p99_ms", "ITL p99", "ms", 1, exact<&E::itl_ms, kP99>, ExactPercentile::kItlP99, {}},
      {"latency_p50_ms", "Latency p50", "s", 1e-3, exact<&E::latency_ms, kP50>, ExactPercentile::kLatencyP50,
       Metric::kLatencyP50},
      {"latency_p95_ms", "Latency p95", "s", 1e-3, exact<&E::latency_ms, kP95>, ExactPercentile::kLatencyP95,
       Metric::kLatencyP95},
      {"output_tokens_per_s",
       "Output tokens/s",
       "tokens/s",
       1,
       [](const LevelAnalysis& a) { return rate(a, &E::output_tokens_per_s, &PublishedFigures::output_tokens_per_s); },
       {},
       Metric::kThroughput},
      {"turns_per_s",
       "Turns/s",
       "turns/s",
       1,
       [](const LevelAnalysis& a) { return rate(a, &E::turns_per_s, &PublishedFigures::turns_per_s); },
       {},
       Metric::kTurnRate},
      {"conversation_starts_per_s",
       "Conversation starts/s",
       "conversations/s",
       1,
       [](const LevelAnalysis& a) {
         return rate(a, &E::conversation_starts_per_s, &PublishedFigures::conversation_starts_per_s);
       },
       {},
       {}},
      {"error_pct", "Errors", "%", 1, [](const LevelAnalysis& a) { return a.error_pct; }, {}, Metric::kErrorPct},
      {"kv_hit_rate_pct",
       "Cache hit rate",
       "%",
       1,
       [](const LevelAnalysis& a) { return a.hit_rate.client_pct; },
       {},
       Metric::kHitRatePct},
      {"goodput_per_s",
       "Good turns/s",
       "turns/s",
       1,
       [](const LevelAnalysis& a) { return a.exact.goodput_per_s; },
       {},
       {}},
      {"good_pct", "Good", "%", 1, [](const LevelAnalysis& a) { return a.exact.good_pct; }, {}, {}},
  }};
  return kFigures;
}

const HeadlineFigure& headline(Headline which) {
  return headline_figures()[static_cast<std::size_t>(which)];
}

Estimate estimate_of(const MeasuredLevel& level, const HeadlineFigure& figure) {
  const std::optional<Spread> spread = level.spread(figure.figure);
  if (!spread) return {};
  Estimate estimate{.value = spread->mean, .interval = {}};
  const std::vector<const Measurement*> repetitions = counted(level);
  if (spread->count >= kLeastRepetitionsForT) {
    std::vector<double> values;
    for (const Measurement* repetition : repetitions) {
      if (const std::optional<double> value = figure.figure(repetition->analysis)) values.push_back(*value);
    }
    estimate.interval = t_interval(values);
  } else if (figure.percentile) {
    estimate.interval = interval_of(mean_replicates(repetitions, *figure.percentile));
  }
  return estimate;
}

Estimate gain_of(const MeasuredLevel* baseline, const MeasuredLevel* candidate, const HeadlineFigure& figure) {
  if (baseline == nullptr || candidate == nullptr) return {};
  if (baseline->analysis.excluded || candidate->analysis.excluded) return {};
  if (!objections_to_level(*baseline, *candidate).empty()) return {};
  const std::optional<double> before = estimate_of(*baseline, figure).value;
  const std::optional<double> after = estimate_of(*candidate, figure).value;
  if (!before || !after || !(*before > 0)) return {};
  return {.value = (*before - *after) / *before * 100,
          .interval = gain_interval(pairs_of(*baseline, *candidate), figure, *before)};
}

}  // namespace kvist::analysis

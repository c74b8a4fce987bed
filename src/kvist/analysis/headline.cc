#include "kvist/analysis/headline.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kvist/analysis/comparison.h"
#include "kvist/analysis/repetition_values.h"
#include "kvist/render/figures.h"

namespace kvist::analysis {
namespace {

template <Distribution ExactFigures::* kMetric, double Distribution::* kFigure>
std::optional<double> exact(const LevelAnalysis& a) {
  return render::figure_of(a.exact.*kMetric, kFigure);
}

constexpr auto kP50 = &Distribution::p50;
constexpr auto kP95 = &Distribution::p95;
constexpr auto kP99 = &Distribution::p99;

constexpr HeadlineFigure percentile(Headline which, std::string_view title, LevelFigure figure, ExactPercentile of,
                                    std::optional<Metric> published = {}) {
  return {.key = spec::key_of(which),
          .title = title,
          .unit = "ms",
          .figure = figure,
          .percentile = of,
          .published = published};
}

/// Of whole answers, so that seconds are easier to read.
constexpr HeadlineFigure in_seconds(HeadlineFigure figure) {
  figure.unit = "s";
  figure.factor = 1e-3;
  return figure;
}

constexpr HeadlineFigure more_is_better(Headline which, std::string_view title, std::string_view unit,
                                        LevelFigure figure, std::optional<Metric> published = {}) {
  return {.key = spec::key_of(which),
          .title = title,
          .unit = unit,
          .figure = figure,
          .published = published,
          .larger_is_better = true};
}

/// If turns of earlier levels end in this one (spec::BetweenLevels::kContinue), the level's own turns do not tell a
/// rate; the snapshots do.
std::optional<double> rate(const LevelAnalysis& a, std::optional<double> ExactFigures::* exact_rate,
                           SnapshotMean PublishedFigures::* by_snapshots) {
  return a.exact.lacks_earlier_turns ? (a.published.*by_snapshots).mean : a.exact.*exact_rate;
}

struct Pairs {
  std::vector<const Measurement*> baseline;
  std::vector<const Measurement*> candidate;
  bool same_requests = false;  // in all pairs
};

Pairs pairs_of(const MeasuredLevel& baseline, const MeasuredLevel& candidate) {
  Pairs pairs{.baseline = {}, .candidate = {}, .same_requests = baseline.same_requests || candidate.same_requests};
  const std::vector<const Measurement*> ours = counted_repetitions(candidate);
  for (const Measurement* theirs : counted_repetitions(baseline)) {
    const auto same = std::ranges::find_if(ours, [&](const Measurement* other) {
      return other->record.repetition == theirs->record.repetition && other->record.seed == theirs->record.seed;
    });
    if (same == ours.end()) continue;
    pairs.baseline.push_back(theirs);
    pairs.candidate.push_back(*same);
  }
  return pairs;
}

/// The figure in pairs that both have it.
struct PairedFigure {
  std::vector<double> baseline;
  std::vector<double> candidate;

  [[nodiscard]] std::size_t count() const { return baseline.size(); }
};

PairedFigure figure_in(const Pairs& pairs, const HeadlineFigure& figure) {
  PairedFigure found;
  for (std::size_t i = 0; i < pairs.baseline.size(); ++i) {
    const std::optional<double> before = figure.figure(pairs.baseline[i]->analysis);
    const std::optional<double> after = figure.figure(pairs.candidate[i]->analysis);
    if (!before || !after || !std::isfinite(*before) || !std::isfinite(*after)) continue;
    found.baseline.push_back(*before);
    found.candidate.push_back(*after);
  }
  return found;
}

double mean_of_pairs(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

std::optional<Interval> gain_interval(const Pairs& pairs, const PairedFigure& paired, const HeadlineFigure& figure) {
  if (!pairs.same_requests && pairs.baseline.size() >= kLeastRepetitionsForT) {
    if (paired.count() < kLeastRepetitionsForT) return std::nullopt;
    const double baseline_mean = mean_of_pairs(paired.baseline);
    std::vector<double> gains;
    for (std::size_t i = 0; i < paired.count(); ++i) {
      gains.push_back((paired.baseline[i] - paired.candidate[i]) / baseline_mean * 100);
    }
    return t_interval(gains);
  }
  if (!figure.percentile) return std::nullopt;
  const std::optional<Interval> change =
      interval_of_percent(common_replicates(pairs.baseline, *figure.percentile, pairs.same_requests),
                          common_replicates(pairs.candidate, *figure.percentile, pairs.same_requests));
  return change ? std::optional(Interval{.low = -change->high, .high = -change->low}) : std::nullopt;
}

}  // namespace

const std::array<HeadlineFigure, kHeadlines>& headline_figures() {
  using E = ExactFigures;
  using P = ExactPercentile;
  static constexpr std::array<HeadlineFigure, kHeadlines> kFigures = {{
      percentile(Headline::kTtftP50, "TTFT p50", exact<&E::ttft_ms, kP50>, P::kTtftP50, Metric::kTtftP50),
      percentile(Headline::kTtftP95, "TTFT p95", exact<&E::ttft_ms, kP95>, P::kTtftP95, Metric::kTtftP95),
      percentile(Headline::kTtftP99, "TTFT p99", exact<&E::ttft_ms, kP99>, P::kTtftP99),
      percentile(Headline::kTpotP50, "TPOT p50", exact<&E::tpot_ms, kP50>, P::kTpotP50, Metric::kTpotP50),
      percentile(Headline::kTpotP95, "TPOT p95", exact<&E::tpot_ms, kP95>, P::kTpotP95, Metric::kTpotP95),
      percentile(Headline::kItlP50, "ITL p50", exact<&E::itl_ms, kP50>, P::kItlP50),
      percentile(Headline::kItlP95, "ITL p95", exact<&E::itl_ms, kP95>, P::kItlP95),
      percentile(Headline::kItlP99, "ITL p99", exact<&E::itl_ms, kP99>, P::kItlP99),
      in_seconds(percentile(Headline::kLatencyP50, "Latency p50", exact<&E::latency_ms, kP50>, P::kLatencyP50,
                            Metric::kLatencyP50)),
      in_seconds(percentile(Headline::kLatencyP95, "Latency p95", exact<&E::latency_ms, kP95>, P::kLatencyP95,
                            Metric::kLatencyP95)),
      more_is_better(
          Headline::kThroughput, "Output tokens/s", "tokens/s",
          [](const LevelAnalysis& a) {
            return rate(a, &E::output_tokens_per_s, &PublishedFigures::output_tokens_per_s);
          },
          Metric::kThroughput),
      more_is_better(
          Headline::kTurnRate, "Turns/s", "turns/s",
          [](const LevelAnalysis& a) { return rate(a, &E::turns_per_s, &PublishedFigures::turns_per_s); },
          Metric::kTurnRate),
      more_is_better(Headline::kConversationRate, "Conversation starts/s", "conversations/s",
                     [](const LevelAnalysis& a) {
                       return rate(a, &E::conversation_starts_per_s, &PublishedFigures::conversation_starts_per_s);
                     }),
      {.key = spec::key_of(Headline::kErrorPct),
       .title = "Errors",
       .unit = "%",
       .figure = [](const LevelAnalysis& a) { return a.error_pct; },
       .published = Metric::kErrorPct},
      more_is_better(
          Headline::kHitRatePct, "Cache hit rate", "%", [](const LevelAnalysis& a) { return a.hit_rate.client_pct; },
          Metric::kHitRatePct),
      more_is_better(Headline::kGoodput, "Good turns/s", "turns/s",
                     [](const LevelAnalysis& a) { return a.exact.goodput_per_s; }),
      more_is_better(Headline::kGoodPct, "Good", "%", [](const LevelAnalysis& a) { return a.exact.good_pct; }),
      percentile(Headline::kTtftFromScheduleP50, "TTFT from schedule p50", exact<&E::ttft_from_schedule_ms, kP50>,
                 P::kTtftFromScheduleP50),
      percentile(Headline::kTtftFromScheduleP95, "TTFT from schedule p95", exact<&E::ttft_from_schedule_ms, kP95>,
                 P::kTtftFromScheduleP95),
      percentile(Headline::kTtftFromScheduleP99, "TTFT from schedule p99", exact<&E::ttft_from_schedule_ms, kP99>,
                 P::kTtftFromScheduleP99),
      in_seconds(percentile(Headline::kLatencyFromScheduleP50, "Latency from schedule p50",
                            exact<&E::latency_from_schedule_ms, kP50>, P::kLatencyFromScheduleP50)),
      in_seconds(percentile(Headline::kLatencyFromScheduleP95, "Latency from schedule p95",
                            exact<&E::latency_from_schedule_ms, kP95>, P::kLatencyFromScheduleP95)),
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
  const std::vector<const Measurement*> repetitions = counted_repetitions(level);
  if (!level.same_requests && spread->count >= kLeastRepetitionsForT) {
    std::vector<double> values;
    for (const Measurement* repetition : repetitions) {
      if (const std::optional<double> value = figure.figure(repetition->analysis)) values.push_back(*value);
    }
    estimate.interval = t_interval(values);
  } else if (figure.percentile) {
    estimate.interval = interval_of(common_replicates(repetitions, *figure.percentile, level.same_requests));
  }
  return estimate;
}

Estimate gain_of(const MeasuredLevel* baseline, const MeasuredLevel* candidate, const HeadlineFigure& figure) {
  if (baseline == nullptr || candidate == nullptr) return {};
  if (baseline->analysis.excluded || candidate->analysis.excluded) return {};
  if (!objections_to_level(*baseline, *candidate).empty()) return {};
  const Pairs pairs = pairs_of(*baseline, *candidate);
  const PairedFigure paired = figure_in(pairs, figure);
  if (paired.count() == 0) return {};
  const double before = mean_of_pairs(paired.baseline);
  if (!(before > 0)) return {};
  return {.value = (before - mean_of_pairs(paired.candidate)) / before * 100,
          .interval = gain_interval(pairs, paired, figure)};
}

}  // namespace kvist::analysis

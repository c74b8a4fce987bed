#include "kvist/loadgen/load_measures.h"

#include "kvist/loadgen/load_merge.h"

namespace kvist::loadgen {
namespace {

using workload::LatencyMetric;

/// Adds a part; its quantiles count as one of `parts`.
void add_series(const SeriesMeasures& part, SeriesMeasures& all) {
  all.count += part.count;
  all.sum_ms += part.sum_ms;
}

void merge_quantiles(const std::vector<const SeriesMeasures*>& parts, SeriesMeasures& all) {
  for (std::size_t q = 0; q < kMeasuredQuantiles.size(); ++q) {
    double sum = 0;
    int known = 0;
    for (const SeriesMeasures* const part : parts) {
      if (!part->quantiles_ms[q]) continue;
      sum += *part->quantiles_ms[q];
      ++known;
    }
    if (known > 0) all.quantiles_ms[q] = sum / known;
  }
}

}  // namespace

LoadMeasures measures_of(const workload::Recorder& recorder, TimePoint now, std::uint32_t in_flight,
                         std::uint64_t dropped_start_slots) {
  LoadMeasures measures;
  for (std::size_t i = 0; i < measures.latencies.size(); ++i) {
    const auto metric = static_cast<LatencyMetric>(i);
    SeriesMeasures& series = measures.latencies[i];
    series.count = recorder.count(metric);
    series.sum_ms = recorder.sum_ms(metric);
    for (std::size_t q = 0; q < kMeasuredQuantiles.size(); ++q) {
      series.quantiles_ms[q] = recorder.quantile_ms(metric, now, kMeasuredQuantiles[q]);
    }
  }
  measures.gaps.count = recorder.gap_count();
  measures.gaps.sum_ms = recorder.gap_sum_ms();
  for (std::size_t q = 0; q < kMeasuredQuantiles.size(); ++q) {
    measures.gaps.quantiles_ms[q] = recorder.gap_quantile_ms(now, kMeasuredQuantiles[q]);
  }
  measures.snapshot = recorder.snapshot(now, in_flight);
  measures.totals = recorder.totals();
  measures.kept_samples = recorder.kept_samples();
  measures.dropped_start_slots = dropped_start_slots;
  return measures;
}

LoadMeasures merge_measures(const std::vector<LoadMeasures>& parts, TimePoint now) {
  LoadMeasures all;
  std::vector<Progress> windows;
  for (const LoadMeasures& part : parts) {
    for (std::size_t i = 0; i < all.latencies.size(); ++i) add_series(part.latencies[i], all.latencies[i]);
    add_series(part.gaps, all.gaps);
    add_totals(part.totals, all.totals);
    all.kept_samples += part.kept_samples;
    all.dropped_start_slots += part.dropped_start_slots;
    windows.emplace_back().window = part.snapshot;
  }
  for (std::size_t i = 0; i < all.latencies.size(); ++i) {
    std::vector<const SeriesMeasures*> series;
    for (const LoadMeasures& part : parts) series.push_back(&part.latencies[i]);
    merge_quantiles(series, all.latencies[i]);
  }
  std::vector<const SeriesMeasures*> gaps;
  for (const LoadMeasures& part : parts) gaps.push_back(&part.gaps);
  merge_quantiles(gaps, all.gaps);
  all.snapshot = merge_progress(windows, now).window;
  return all;
}

}  // namespace kvist::loadgen

#include "kvist/loadgen/metrics.h"

#include <array>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kvist/loadgen/loop_monitor.h"
#include "kvist/telemetry/build_info.h"

namespace kvist::loadgen {
namespace {

using telemetry::MetricsPage;
using workload::LatencyMetric;

void fill_summary(MetricsPage& page, const SeriesMeasures& series, const std::string& name, const std::string& help) {
  std::vector<telemetry::QuantileValue> quantiles;
  for (std::size_t q = 0; q < kMeasuredQuantiles.size(); ++q) {
    const std::optional<double> ms = series.quantiles_ms[q];
    quantiles.push_back({kMeasuredQuantiles[q], ms ? *ms * 1e-3 : std::numeric_limits<double>::quiet_NaN()});
  }
  page.summary(name, help, std::move(quantiles), series.count, series.sum_ms * 1e-3);
}

void fill_summaries(MetricsPage& page, const MetricsSource& source) {
  fill_summary(page, source.measures.latency(LatencyMetric::kTtft), "loadgen_ttft_all_seconds",
               "Time to first token of all turns, observed when the token arrives");
  fill_summary(page, source.measures.latency(LatencyMetric::kTpot), "loadgen_tpot_seconds",
               "Time per output token after the first, per succeeded turn");
  fill_summary(page, source.measures.gaps, "loadgen_itl_seconds", "Gaps between content chunks, pooled over all turns");
  fill_summary(page, source.measures.latency(LatencyMetric::kItl), "loadgen_request_itl_seconds",
               "Mean gap between content chunks, per succeeded turn");
  fill_summary(page, source.measures.latency(LatencyMetric::kLatency), "loadgen_latency_seconds",
               "From sending to the end of the answer, per succeeded turn");
}

void fill_counters(MetricsPage& page, const MetricsSource& source) {
  const workload::RecorderTotals& totals = source.measures.totals;
  const auto counter = [&page](const char* name, const char* help, std::uint64_t value,
                               const telemetry::Labels& labels = {}) {
    page.counter(name, help, static_cast<double>(value), labels);
  };
  const char* const requests = "loadgen_requests_total";
  const char* const requests_help = "Finished turns by outcome";
  counter(requests, requests_help, totals.turns_succeeded, {{"outcome", "succeeded"}});
  counter(requests, requests_help, totals.turns_failed, {{"outcome", "failed"}});
  counter(requests, requests_help, totals.turns_abandoned, {{"outcome", "abandoned"}});
  counter("loadgen_conversations_started_total", "Conversations started", totals.conversations_started);
  counter("loadgen_output_tokens_total", "Tokens received, counted as they arrive", totals.output_tokens);
  counter("loadgen_missing_usage_total", "Succeeded turns whose answer had no usage", totals.missing_usage);
  counter("loadgen_samples_refused_total", "Raw samples that found no room", totals.samples_refused);
  counter("loadgen_start_slots_dropped_total", "Starts that the concurrency limit made impossible",
          source.measures.dropped_start_slots);
}

}  // namespace

void fill_metrics(MetricsPage& page, const MetricsSource& source) {
  fill_summaries(page, source);
  fill_counters(page, source);
  page.gauge("loadgen_in_flight", "Turns in flight", source.measures.snapshot.in_flight);
  page.gauge("loadgen_concurrency",
             "The level of the run under way, 0 when idle: conversations at once; of open arrivals their starts per "
             "minute",
             source.concurrency);
  page.gauge("loadgen_max_start_rate", "Conversation starts per second, at most; of an open loop their rate",
             source.target_rps);
  page.gauge("loadgen_target_rps", "The former name of loadgen_max_start_rate", source.target_rps);
  page.gauge("loadgen_samples_kept", "Raw samples not taken yet", static_cast<double>(source.measures.kept_samples));
  page.gauge("loadgen_loop_delay_seconds_p99", "How late the loop ran a timer since the last start, 99th percentile",
             source.load.loop_delay_p99_ms * 1e-3);
  page.gauge("loadgen_loop_delay_seconds_max", "How late the loop ran a timer since the last start, at most",
             source.load.loop_delay_max_ms * 1e-3);
  telemetry::write_build_info(page, "loadgen");
  page.counter("process_cpu_seconds_total", "User and system CPU time of the process", process_cpu_seconds());
}

}  // namespace kvist::loadgen

#include "kvist/deploy/worker_metrics.h"

#include <fmt/format.h>

#include "kvist/telemetry/exposition.h"

namespace kvist::deploy {

Result<WorkerMetrics> read_worker_metrics(std::string worker, std::string_view page) {
  auto samples = telemetry::MetricSamples::parse(page);
  if (!samples) return std::unexpected(std::move(samples).error().in(worker + ": /metrics"));
  WorkerMetrics metrics;
  metrics.worker = std::move(worker);

  struct Needed {
    const char* name;
    double* value;
  };
  const Needed needed[] = {
      {"process_start_time_seconds", &metrics.process_start_time_s},
      {"vllm:num_requests_running", &metrics.running},
      {"vllm:num_requests_waiting", &metrics.waiting},
      {"vllm:kv_cache_usage_perc", &metrics.kv_usage},
      {"vllm:prefix_cache_queries_total", &metrics.prefix_query_tokens},
      {"vllm:prefix_cache_hits_total", &metrics.prefix_hit_tokens},
      {"vllm:prompt_tokens_total", &metrics.prompt_tokens},
      {"vllm:generation_tokens_total", &metrics.generated_tokens},
      {"vllm:num_preemptions_total", &metrics.preemptions},
  };
  for (const Needed& field : needed) {
    // Of several engines behind one page (vLLM's data-parallel ranks) each has samples of its own. Counts of them add
    // up; the share of all blocks that is in use is the mean of theirs, because each has as many.
    const bool is_share = field.value == &metrics.kv_usage;
    const auto value = is_share ? samples->mean(field.name) : samples->sum(field.name);
    if (!value) return fail(ErrorCode::kCorrupt, fmt::format("{}: /metrics has no {}", metrics.worker, field.name));
    *field.value = *value;
  }
  metrics.prefilled_tokens = samples->sum("kvist_worker_prefilled_tokens_total");
  metrics.evicted_blocks = samples->sum("kvist_worker_evicted_blocks_total");
  metrics.draft_tokens = samples->sum("vllm:spec_decode_num_draft_tokens_total");
  metrics.accepted_draft_tokens = samples->sum("vllm:spec_decode_num_accepted_tokens_total");
  metrics.prefill_steps = samples->sum("kvist_worker_steps_total", "kind", "prefill");
  metrics.mixed_steps = samples->sum("kvist_worker_steps_total", "kind", "mixed");
  metrics.decode_steps = samples->sum("kvist_worker_steps_total", "kind", "decode");
  return metrics;
}

}  // namespace kvist::deploy

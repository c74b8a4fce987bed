#include "kvist/worker/metrics_page.h"

#include <string>

#include "kvist/telemetry/build_info.h"
#include "kvist/telemetry/process_metrics.h"

namespace kvist::worker {
namespace {

double share(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

double number(std::uint64_t count) {
  return static_cast<double>(count);
}

void write_steps(telemetry::MetricsPage& page, const engine::CoreStats& stats, const telemetry::Labels& labels) {
  const auto write = [&](const char* kind, std::uint64_t count) {
    telemetry::Labels with_kind = labels;
    with_kind.emplace_back("kind", kind);
    page.counter("kvist_worker_steps_total", "Engine steps by what they computed: prompts, answers or both.",
                 number(count), with_kind);
  };
  write("prefill", stats.prefill_steps);
  write("mixed", stats.mixed_steps);
  write("decode", stats.steps - stats.prefill_steps - stats.mixed_steps);
}

void write_prompt_sources(telemetry::MetricsPage& page, const engine::CoreStats& stats,
                          const telemetry::Labels& labels) {
  const auto write = [&](const char* source, std::uint64_t tokens) {
    telemetry::Labels with_source = labels;
    with_source.emplace_back("source", source);
    page.counter("vllm:prompt_tokens_by_source_total", "Prompt tokens by where their keys and values came from.",
                 number(tokens), with_source);
  };
  write("local_compute", stats.prompt_tokens - stats.prefix_hit_tokens);
  write("local_cache_hit", stats.prefix_hit_tokens);
  page.counter("vllm:prompt_tokens_cached_total", "Prompt tokens that were not computed.",
               number(stats.prefix_hit_tokens), labels);
  telemetry::Labels with_tier = labels;
  with_tier.emplace_back("source", "device");
  page.counter("vllm:prompt_tokens_cached_by_source_total", "Prompt tokens that were not computed, by cache tier.",
               number(stats.prefix_hit_tokens), with_tier);
}

void write_engine(telemetry::MetricsPage& page, const engine::CoreStats& stats, const telemetry::Labels& labels) {
  page.gauge("vllm:num_requests_running", "Requests in the running batch.", stats.running, labels);
  page.gauge("vllm:num_requests_waiting", "Requests that wait for a batch slot.", stats.waiting, labels);
  page.gauge("vllm:kv_cache_usage_perc", "Share of the KV blocks that requests hold, 0 to 1.",
             share(stats.kv_blocks_used, stats.kv_blocks_total), labels);
  page.counter("vllm:prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache.",
               number(stats.prefix_query_tokens), labels);
  page.counter("vllm:prefix_cache_hits_total", "Prompt tokens found in the prefix cache.",
               number(stats.prefix_hit_tokens), labels);
  page.counter("vllm:num_preemptions_total", "Requests that lost their KV blocks and were recomputed.",
               number(stats.preemptions), labels);
  page.counter("vllm:prompt_tokens_total", "Prompt tokens of admitted requests.", number(stats.prompt_tokens), labels);
  write_prompt_sources(page, stats, labels);
  page.counter("vllm:generation_tokens_total", "Tokens generated.", number(stats.generated_tokens), labels);
  page.counter("kvist_worker_prefilled_tokens_total", "Prompt tokens computed, cached ones left out.",
               number(stats.prefilled_tokens), labels);
  page.counter("kvist_worker_evicted_blocks_total", "Findable KV blocks that were re-used for something else.",
               number(stats.evictions), labels);
  page.gauge("kvist_worker_prefill_backlog_tokens",
             "Prompt tokens of waiting and running requests still to be computed.",
             number(stats.prefill_backlog_tokens), labels);
  write_steps(page, stats, labels);
}

void write_speculation(telemetry::MetricsPage& page, const engine::CoreStats& stats, const telemetry::Labels& labels) {
  page.counter("vllm:spec_decode_num_drafts_total", "Drafts verified, one per sequence and step.", number(stats.drafts),
               labels);
  page.counter("vllm:spec_decode_num_draft_tokens_total", "Draft tokens verified.", number(stats.draft_tokens), labels);
  page.counter("vllm:spec_decode_num_accepted_tokens_total", "Draft tokens that were right.",
               number(stats.accepted_draft_tokens), labels);
  page.gauge("kvist_worker_spec_decode_acceptance_rate", "Share of the draft tokens that were right, 0 to 1.",
             share(stats.accepted_draft_tokens, stats.draft_tokens), labels);
  page.gauge("kvist_worker_spec_decode_tokens_per_step",
             "Tokens that a verification brings for its request, 1 without drafts.",
             1 + share(stats.accepted_draft_tokens, stats.drafts), labels);
}

void write_limits(telemetry::MetricsPage& page, const spec::WorkerSpec& spec, const telemetry::Labels& labels) {
  telemetry::Labels cache = labels;
  cache.emplace_back("block_size", std::to_string(spec.block_size));
  cache.emplace_back("num_gpu_blocks", std::to_string(spec.kv_blocks));
  cache.emplace_back("enable_prefix_caching", "True");
  page.gauge("vllm:cache_config_info", "The KV cache's configuration, in labels.", 1, cache);
  page.gauge("kvist_worker_max_batch_size", "Batch slots: requests that can run at once.", spec.max_batch_size, labels);
  page.gauge("kvist_worker_max_num_tokens", "Token budget of one engine step.", spec.max_num_tokens, labels);
  page.gauge("kvist_worker_max_waiting", "Requests that may wait before the answer is 429.", spec.max_waiting, labels);
}

void write_finished(telemetry::MetricsPage& page, const FinishCounts& counts, const telemetry::Labels& labels) {
  const auto write = [&](const char* reason, std::uint64_t count) {
    telemetry::Labels with_reason = labels;
    with_reason.emplace_back("finished_reason", reason);
    page.counter("vllm:request_success_total", "Requests by how they ended.", number(count), with_reason);
  };
  write("stop", counts.stop);
  write("length", counts.length);
  write("abort", counts.aborted);
}

void write_reading(telemetry::MetricsPage& page, const net::WorkPool::Counters& reading,
                   const telemetry::Labels& labels) {
  page.counter("kvist_worker_large_bodies_read_total", "Large bodies read beside the loop.", number(reading.done),
               labels);
  page.counter("kvist_worker_large_bodies_refused_total", "Large bodies that were not read, as too many waited.",
               number(reading.refused), labels);
  page.gauge("kvist_worker_large_bodies_waiting", "Large bodies that wait for the thread.", number(reading.waiting),
             labels);
}

void write_listener(telemetry::MetricsPage& page, const net::HttpServerReport& listener) {
  for (const auto& [state, count] : listener.by_state())
    page.gauge("kvist_worker_connections",
               "Connections: with a request or a part of one, idle, or in a place kept for health.", number(count),
               {{"state", std::string(state)}});
  for (const auto& [reason, count] : listener.closed())
    page.counter(
        "kvist_worker_connections_closed_total",
        "Connections closed for want of a place: idle ones that made room, newcomers that found none, those of "
        "an address that had too many.",
        number(count), {{"reason", std::string(reason)}});
  for (std::size_t i = 0; i < listener.refused.size(); ++i)
    page.counter(
        "kvist_worker_http_refused_total",
        "Requests that the HTTP server answered by itself: malformed, too large, too slow, or without a place.",
        number(listener.refused[i]), {{"status", std::to_string(net::HttpServerReport::kStatuses[i])}});
}

}  // namespace

void write_metrics(telemetry::MetricsPage& page, const spec::WorkerSpec& spec, const MetricSources& sources) {
  // A worker is one engine. The label `engine` is vLLM's data-parallel rank.
  const telemetry::Labels labels = {{"model_name", spec.model}, {"engine", "0"}};
  const EngineRunner& runner = sources.runner;
  const engine::CoreStats stats = runner.driver().stats();
  write_engine(page, stats, labels);
  if (spec.speculation.enabled) write_speculation(page, stats, labels);
  write_limits(page, spec, labels);
  write_finished(page, runner.metrics().finish_counts(), labels);
  runner.metrics().write(page, labels);
  page.counter("kvist_worker_step_lateness_seconds_total", "How much later than modelled steps ended, summed.",
               to_seconds(runner.driver().times().lateness), labels);
  page.counter("kvist_worker_step_resynchronisations_total",
               "How often steps were so late that the modelled clock was reset.",
               number(runner.driver().times().resynchronisations), labels);
  page.counter("kvist_worker_kv_event_batches_total", "KV event batches published.", number(runner.event_batches()),
               labels);
  page.counter("kvist_worker_slow_clients_total", "Answers ended because 4 MiB of them waited for the client to read.",
               number(sources.generations.slow_clients()), labels);
  write_reading(page, sources.reading, labels);
  write_listener(page, sources.listener);
  if (sources.keys != nullptr)
    page.counter("kvist_worker_unauthenticated_requests_total", "Requests without a known API key.",
                 number(sources.keys->refused()));
  if (sources.tls != nullptr)
    page.counter("kvist_worker_tls_failed_handshakes_total", "TLS handshakes with clients that failed.",
                 number(sources.tls->failed_handshakes()));
  telemetry::write_build_info(page, "worker");
  telemetry::write_process_metrics(page, sources.started_unix_s);
}

}  // namespace kvist::worker

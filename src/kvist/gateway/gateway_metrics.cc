#include "kvist/gateway/gateway_metrics.h"

#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "kvist/gateway/admission_metrics.h"
#include "kvist/gateway/discovery_metrics.h"
#include "kvist/gateway/key_metrics.h"
#include "kvist/gateway/worker_state.h"
#include "kvist/kv_index/kv_index.h"
#include "kvist/telemetry/build_info.h"
#include "kvist/telemetry/labelled_page.h"
#include "kvist/telemetry/process_metrics.h"

namespace kvist::gateway {
namespace {

using telemetry::Labels;
using telemetry::MetricsPage;

double number(std::uint64_t count) {
  return static_cast<double>(count);
}

void write_outcomes(MetricsPage& page, const dispatch::OutcomeCounts& counts, const std::string& worker) {
  for (std::size_t i = 0; i < dispatch::kOutcomes; ++i) {
    if (counts.by_outcome[i] == 0) continue;
    page.counter("kvist_gateway_requests_total", "Requests that ended, by last worker tried and outcome",
                 number(counts.by_outcome[i]),
                 {{"worker", worker}, {"outcome", std::string(to_string(static_cast<dispatch::Outcome>(i)))}});
  }
}

void write_refused(const std::map<int, std::uint64_t>& refused, MetricsPage& page) {
  for (const auto& [status, count] : refused) {
    page.counter("kvist_gateway_refused_requests_total", "Requests the gateway answered with an error itself",
                 number(count), {{"status", std::to_string(status)}});
  }
}

void write_requests(const ModelParts& parts, const ProxyReport& proxies, MetricsPage& page) {
  const dispatch::DispatchCounters& counters = parts.dispatcher.counters();
  dispatch::OutcomeCounts without_worker = counters.without_worker;
  without_worker.by_outcome[static_cast<std::size_t>(dispatch::Outcome::kClientGone)] += proxies.left_early;
  write_outcomes(page, without_worker, "");
  for (std::uint32_t i = 0; i < parts.fleet.size(); ++i) {
    if (parts.is_watched(WorkerId(i)))
      write_outcomes(page, counters.by_worker[i], parts.fleet.worker(WorkerId(i)).name);
  }
  write_refused(proxies.refused, page);
  for (const auto& [what, count] :
       {std::pair("unread_body", proxies.passed_on_unread), std::pair("other_endpoint", proxies.passed_on_others)}) {
    page.counter("kvist_gateway_passed_on_total", "Requests given to a worker without having been read", number(count),
                 {{"what", what}});
  }
  page.gauge("kvist_gateway_in_flight", "Requests under way", number(parts.dispatcher.in_flight()));
  page.gauge("kvist_gateway_max_in_flight", "Most requests admitted at once", parts.spec.max_in_flight);
  write_admission_metrics(parts.dispatcher, page);
  page.counter("kvist_gateway_retries_total", "Further workers tried", number(counters.retries()));
  page.counter("kvist_gateway_free_retries_total", "Of those, retries that the retry budget did not pay for",
               number(counters.free_retries));
  page.gauge("kvist_gateway_retry_budget", "Retries that may be made now", parts.dispatcher.retry_budget().balance());
  page.counter("kvist_gateway_retries_over_budget_total", "Retries not made as the budget was used up",
               number(counters.retries_over_budget));
  const ProxyCounters& proxy = proxies.counters;
  page.counter("kvist_gateway_slow_client_pauses_total", "Times a worker was slowed for a slow client",
               number(proxy.pauses));
  page.counter("kvist_gateway_unreadable_chunks_total", "Stream chunks that were forwarded without being understood",
               number(proxy.unreadable_chunks));
  page.counter("kvist_gateway_error_frames_total", "Streams in which a worker put an error of its own",
               number(proxy.error_frames));
  page.counter("kvist_gateway_local_exhaustions_total",
               "Calls to workers that failed as the gateway itself had no descriptor, port or memory for a socket",
               number(proxy.exhaustions));
  page.counter("kvist_gateway_stream_keepalives_total", "Comments sent to streams to which nothing else was sent",
               number(proxy.keepalives));
  page.counter("kvist_gateway_late_errors_total",
               "Errors that were told in an event, as a comment had been sent before the answer",
               number(proxy.late_errors));
  page.counter("kvist_gateway_idle_streams_total",
               "Answers given up at their worker as nothing more of them came for too long",
               number(proxy.idle_streams));
  page.counter("kvist_gateway_migrations_total", "Times a begun answer went on at another worker",
               number(proxy.moved_streams));
  page.counter("kvist_gateway_migrated_tokens_total", "Tokens that those answers had when they moved",
               number(proxy.moved_tokens));
  page.histogram("kvist_gateway_migration_gap_seconds",
                 "From the loss of a begun answer's worker to the first text of the next one",
                 LatencyHistogram::bounds(), proxy.move_gap.counts(), proxy.move_gap.sum_seconds());
  for (std::size_t i = 0; i < kMigrationRefusals; ++i) {
    page.counter("kvist_gateway_migrations_refused_total",
                 "Begun streams whose worker failed and that did not go on at another, by reason",
                 number(proxy.unmoved_streams[i]),
                 {{"reason", std::string(to_string(static_cast<MigrationRefusal>(i)))}});
  }
  page.counter("kvist_gateway_unended_streams_total", "Streams that ended without finish_reason, usage or [DONE]",
               number(proxy.unended_streams));
}

/// The names of workers that are gone are not known any more.
std::string name_of(const ModelParts& parts, WorkerId worker) {
  return worker.value() < parts.fleet.size() ? parts.fleet.worker(worker).name : std::string();
}

void write_times(const ModelParts& parts, const RequestTimesTable& table, MetricsPage& page) {
  table.for_each([&](const std::string& key_class, WorkerId worker, const RequestTimes& times) {
    if (worker.value() >= parts.fleet.size() || !parts.is_watched(worker)) return;  // it may be elsewhere by now
    const Labels labels{{"model", parts.spec.model}, {"worker", name_of(parts, worker)}, {"class", key_class}};
    const auto write = [&](const char* name, const char* help, const auto& histogram, const Labels& of) {
      if (!histogram.empty())
        page.histogram(name, help, histogram.bounds(), histogram.counts(), histogram.sum_seconds(), of);
    };
    write("kvist_gateway_e2e_request_latency_seconds", "From a request's arrival to the end of its complete answer",
          times.end_to_end, labels);
    write("kvist_gateway_time_to_first_token_seconds", "From a request's arrival to the first token of its stream",
          times.first_token, labels);
    write("kvist_gateway_inter_token_latency_seconds",
          "Between arrivals of a stream's tokens; those that arrive together are one arrival", times.inter_token,
          labels);
    write("kvist_gateway_routing_time_seconds", "From asking for a worker to knowing it", times.routing, labels);
    for (const auto& [kind, wait] :
         {std::pair("predicted", &times.predicted_wait), std::pair("observed", &times.observed_wait)}) {
      Labels with_kind = labels;
      with_kind.emplace_back("kind", kind);
      write("kvist_gateway_request_queue_time_seconds",
            "Wait at the worker: as forecast when it was chosen, and how much later than forecast without waiting the "
            "first token came",
            *wait, with_kind);
    }
  });
}

void write_reporting(const RequestReporter& reporter, MetricsPage& page) {
  if (const AccessLog* log = reporter.access_log()) {
    const AccessLog::Counters counters = log->counters();
    page.counter("kvist_gateway_access_log_lines_total", "Lines written to the access log", number(counters.lines));
    for (const auto& [reason, count] : {std::pair("behind", counters.dropped), std::pair("disk", counters.failures)})
      page.counter("kvist_gateway_access_log_lost_total",
                   "Requests that are not in it, as too many waited or it could not be written", number(count),
                   {{"reason", reason}});
    page.gauge("kvist_gateway_access_log_waiting", "Requests that wait to be written", number(counters.waiting));
  }
  if (const SpanExporter* spans = reporter.spans()) {
    const SpanExporter::Counters counters = spans->counters();
    for (const auto& [result, count] : {std::pair("exported", counters.exported),
                                        std::pair("dropped", counters.dropped), std::pair("refused", counters.refused)})
      page.counter("kvist_gateway_traced_requests_total",
                   "Traced requests by what became of their spans: sent, dropped as too many waited, refused by the "
                   "collector",
                   number(count), {{"result", result}});
    page.counter("kvist_gateway_trace_export_failures_total", "Calls to the collector of traces that failed",
                 number(counters.failures));
    page.gauge("kvist_gateway_traces_waiting", "Traced requests that wait to be sent", number(counters.waiting));
  }
}

void write_record(const RecordWriter& recorder, MetricsPage& page) {
  const RecordWriter::Counters counters = recorder.counters();
  page.counter("kvist_gateway_record_requests_total", "Requests given to the record of traffic",
               number(counters.added));
  page.counter("kvist_gateway_record_lines_total", "Lines of requests in its files", number(counters.file.lines));
  for (const auto& [reason, count] :
       {std::pair("behind", counters.dropped), std::pair("disk", counters.file.lost_lines)}) {
    page.counter("kvist_gateway_record_lost_total",
                 "Requests that are not in it, as too many waited or the disk failed", number(count),
                 {{"reason", reason}});
  }
  page.gauge("kvist_gateway_record_waiting", "Requests that wait to be written", number(counters.waiting));
  page.counter("kvist_gateway_record_bytes_total", "Bytes written", number(counters.file.bytes));
  page.counter("kvist_gateway_record_rotations_total", "Times a file was full", number(counters.file.rotations));
  page.counter("kvist_gateway_record_failures_total", "Times the file system failed it",
               number(counters.file.failures));
}

void write_reading(const ModelParts& parts, const ProxyReport& proxies, MetricsPage& page) {
  const ReadingPool::Counters& work = proxies.pool;
  page.counter("kvist_gateway_prompts_read_total", "Long requests read beside the loop", number(work.done));
  page.counter("kvist_gateway_prompts_read_seconds_total", "Thread time of that", work.busy_seconds);
  page.counter("kvist_gateway_prompts_waited_seconds_total", "How long they waited for a thread", work.waited_seconds);
  page.gauge("kvist_gateway_prompts_waiting", "Long requests that wait for a thread", number(work.waiting));
  page.gauge("kvist_gateway_prompts_waiting_bytes", "Bytes of their bodies", number(work.waiting_bytes));
  page.counter("kvist_gateway_prompts_refused_total", "Long requests refused as too many waited", number(work.refused));
  if (!parts.reader.is_slow()) return;
  const PrefixCacheCounters cache = parts.reader.cache_counters();
  page.counter("kvist_gateway_prompt_cache_bytes_total", "Bytes of rendered chats", number(cache.prompt_bytes));
  page.counter("kvist_gateway_prompt_cache_hit_bytes_total", "Of those, tokenized and hashed before",
               number(cache.cached_bytes));
  page.counter("kvist_gateway_prompt_cache_evictions_total", "Segments of chats given up for others",
               number(cache.evictions));
  page.gauge("kvist_gateway_prompt_cache_segments", "Segments of chats in the cache", number(cache.segments));
  page.gauge("kvist_gateway_prompt_cache_size_bytes", "Memory of the cache", number(cache.bytes));
}

void write_routing(const ModelParts& parts, MetricsPage& page) {
  for (const spec::RoutingMode mode : spec::kRoutingModes) {
    if (spec::is_simulated_only(mode)) continue;
    const Labels labels{{"mode", std::string(to_string(mode))}};
    page.gauge("kvist_gateway_router_mode", "1 for the routing mode in use", parts.router.mode() == mode ? 1 : 0,
               labels);
    page.counter("kvist_gateway_routing_decisions_total", "Routing decisions, retries among them",
                 number(parts.router.decisions(mode)), labels);
  }
  page.counter("kvist_gateway_held_back_decisions_total",
               "Decisions in which a new worker was no candidate, as its first answers had still to come",
               number(parts.router.held_back()));
  const routing::Router::SessionCounts& sessions = parts.router.session_counts();
  page.gauge("kvist_gateway_sessions", "Sessions whose worker is remembered", number(parts.router.sessions().size()));
  page.counter("kvist_gateway_sessions_displaced_total", "Sessions that were forgotten for want of room",
               number(parts.router.sessions().displaced()));
  page.counter("kvist_gateway_session_requests_total", "Decisions for a remembered session, by whether it stayed",
               number(sessions.kept), {{"at", "same_worker"}});
  page.counter("kvist_gateway_session_requests_total", "Decisions for a remembered session, by whether it stayed",
               number(sessions.moved), {{"at", "other_worker"}});
  page.gauge("kvist_gateway_recomputed_blocks_ratio",
             "KV blocks that have to be computed again for each that a cache takes in, because it evicts another one",
             parts.router.recomputed_blocks());
  const dispatch::DispatchCounters& counters = parts.dispatcher.counters();
  page.counter("kvist_gateway_usage_reports_total", "Answers whose worker reported its usage",
               number(counters.usage_reports));
  page.counter("kvist_gateway_prompt_tokens_total", "Prompt tokens of those answers", number(counters.prompt_tokens));
  page.counter("kvist_gateway_predicted_cached_tokens_total", "Cached prompt tokens the router predicted for them",
               number(counters.predicted_cached_tokens));
  page.counter("kvist_gateway_cached_tokens_total", "Cached prompt tokens their workers reported",
               number(counters.cached_tokens));
  page.counter("kvist_gateway_cached_tokens_error_total", "Absolute difference of the two, summed over answers",
               number(counters.cached_tokens_absolute_error));
}

void write_worker(const ModelParts& parts, WorkerId id, MetricsPage& page) {
  const dispatch::Fleet::Worker& worker = parts.fleet.worker(id);
  const routing::WorkerLoad& load = parts.router.loads().load(id);
  const WorkerMonitor& monitor = *parts.monitors[id.value()];
  const Labels labels{{"worker", worker.name}};
  page.gauge("kvist_gateway_worker_healthy", "1 while the worker is healthy",
             worker.health == dispatch::WorkerHealth::kHealthy ? 1 : 0, labels);
  page.counter("kvist_gateway_worker_failures_total", "Failed health checks, broken connections and server errors",
               number(worker.failures), labels);
  page.counter("kvist_gateway_worker_looks_total", "Times its /health or /metrics was asked for",
               number(monitor.looks()), labels);
  page.counter("kvist_gateway_worker_restarts_total", "Restarts seen", number(monitor.restarts()), labels);
  page.counter("kvist_gateway_worker_failed_scrapes_total", "Times its /metrics could not be read",
               number(monitor.failed_scrapes()), labels);
  page.gauge("kvist_gateway_worker_in_flight", "Requests given to the worker and not ended", load.requests, labels);
  page.gauge("kvist_gateway_worker_prefill_tokens", "Uncached prompt tokens it has still to compute",
             number(load.prefill_tokens), labels);
  page.gauge("kvist_gateway_worker_prompt_blocks", "Distinct prompt blocks of its requests", number(load.prompt_blocks),
             labels);
  page.gauge("kvist_gateway_worker_running", "Requests in its batch, as it reports", monitor.report().running, labels);
  page.gauge("kvist_gateway_worker_waiting", "Requests in its queue, as it reports", monitor.report().waiting, labels);
  page.gauge("kvist_gateway_worker_stalled", "1 while it has work and stands still", worker.stalled ? 1 : 0, labels);
  page.counter("kvist_gateway_worker_stalls_total", "Times it began to stand still", number(worker.stalls), labels);
  page.gauge("kvist_gateway_worker_batch_slots", "Batch slots the router reckons with; 0: unknown",
             parts.fleet.views()[id.value()].limits.max_batch_size,
             {{"worker", worker.name}, {"source", std::string(to_string(parts.fleet.batch_slots_source(id)))}});
  page.gauge("kvist_gateway_worker_kv_blocks_in_use", "KV blocks of requests in its batch, by its own usage",
             number(monitor.report().kv_blocks_in_use()), labels);
  page.gauge("kvist_gateway_worker_kv_blocks", "KV blocks the router reckons with; 0: unknown",
             parts.fleet.views()[id.value()].limits.kv_blocks, labels);
  for (const TokenizerMatch match : kTokenizerMatches) {
    page.gauge("kvist_gateway_worker_tokenizer", "1 for how the worker's tokens compare with the gateway's",
               parts.tokenizers[id.value()]->match() == match ? 1 : 0,
               {{"worker", worker.name}, {"match", std::string(to_string(match))}});
  }
  page.gauge("kvist_gateway_worker_block_size_mismatch", "1 if its KV blocks have another size than configured here",
             monitor.block_size_mismatch() ? 1 : 0, labels);
}

/// What its answers and its list of models say about the worker.
void write_judgement(const ModelParts& parts, WorkerId id, MetricsPage& page) {
  const std::string& name = parts.fleet.worker(id).name;
  const dispatch::OutlierWatch::Worker& outlier = parts.dispatcher.outliers().worker(id);
  const std::string_view state = worker_state(parts, id);
  for (const std::string_view each : kWorkerStates) {
    page.gauge("kvist_gateway_worker_state", "1 for the state of the worker", each == state ? 1 : 0,
               {{"worker", name}, {"state", std::string(each)}});
  }
  for (std::size_t i = 0; i < dispatch::kAttemptFailures; ++i) {
    page.counter("kvist_gateway_attempt_failures_total", "Attempts at the worker that failed, by reason",
                 number(parts.dispatcher.counters().failures[id.value()][i]),
                 {{"worker", name}, {"reason", std::string(to_string(static_cast<dispatch::AttemptFailure>(i)))}});
  }
  for (std::size_t i = 0; i < dispatch::kEjectionRules; ++i) {
    page.counter("kvist_gateway_worker_ejections_total", "Times the worker was ejected because of its answers, by rule",
                 number(outlier.ejections[i]),
                 {{"worker", name}, {"rule", std::string(to_string(static_cast<dispatch::EjectionRule>(i)))}});
  }
  page.counter("kvist_gateway_worker_ejections_over_cap_total",
               "Failures that would have ejected it, had not enough of the fleet been ejected already",
               number(outlier.over_cap), {{"worker", name}});
  const dispatch::ModelWatch::Worker& model = parts.models.worker(id);
  for (const dispatch::ModelMatch match :
       {dispatch::ModelMatch::kUnknown, dispatch::ModelMatch::kSame, dispatch::ModelMatch::kOther}) {
    page.gauge("kvist_gateway_worker_model", "1 for how its list of models compares with the gateway's model",
               model.match == match ? 1 : 0, {{"worker", name}, {"match", std::string(to_string(match))}});
  }
  page.gauge("kvist_gateway_worker_max_model_len", "Its context length in tokens, as it reports; 0: unknown",
             model.max_model_len, {{"worker", name}});
  page.gauge("kvist_gateway_worker_most_waiting",
             "Requests that may wait for their first token there, as it is new; 0: any number",
             parts.fleet.views()[id.value()].most_waiting, {{"worker", name}});
  page.gauge("kvist_gateway_worker_adapters", "Adapters (LoRA) of the gateway's model that it has",
             number(model.adapters.size()), {{"worker", name}});
}

/// The router's expectations of the worker, and their errors.
void write_forecasts(const ModelParts& parts, WorkerId id, MetricsPage& page) {
  const Labels labels{{"worker", parts.fleet.worker(id).name}};
  const routing::WorkerLoad& load = parts.router.loads().load(id);
  const routing::LatencyModel& model = parts.router.forecaster().model(id);
  page.gauge("kvist_gateway_forecast_step_seconds", "Decode step expected of the worker's batch as it is",
             model.step_ms(load.requests, load.context_tokens) / 1e3, labels);
  page.gauge("kvist_gateway_forecast_prefill_seconds_per_token", "Expected time of one uncached prompt token",
             model.prefill_ms({.uncached = 1}) / 1e3, labels);
  const auto write_error = [&](const routing::PredictionError& error, const char* what) {
    const Labels of{{"worker", parts.fleet.worker(id).name}, {"of", what}};
    page.gauge("kvist_gateway_forecast_error_ratio",
               "Mean absolute error of the latest forecasts, as a share of what was forecast or happened",
               error.relative(), of);
    page.counter("kvist_gateway_forecasts_observed_total", "Forecasts that could be held against what happened",
                 number(error.observations), of);
  };
  write_error(model.step_error(), "step");
  write_error(model.first_token_error(), "first_token");
}

void write_index(const KvEventsReport::Worker& worker, const std::string& name, MetricsPage& page) {
  const Labels labels{{"worker", name}};
  const kv_index::KvIndexCounters& counters = worker.index;
  page.gauge("kvist_gateway_kv_index_blocks", "Blocks of the worker in the index, in device memory",
             number(worker.blocks), labels);
  for (std::size_t tier = 0; tier < kv_index::kLowerTiers; ++tier) {
    const auto medium = static_cast<kv::Medium>(tier + 1);
    page.gauge("kvist_gateway_kv_index_lower_tier_blocks", "Blocks of the worker outside of device memory in the index",
               number(worker.lower_tier_blocks[tier]), {{"worker", name}, {"medium", std::string(to_string(medium))}});
  }
  page.counter("kvist_gateway_kv_blocks_stored_total", "Blocks its events stored", number(counters.stored_blocks),
               labels);
  page.counter("kvist_gateway_kv_blocks_removed_total", "Blocks its events removed", number(counters.removed_blocks),
               labels);
  page.counter("kvist_gateway_kv_unknown_removals_total", "Removed blocks that the index did not know",
               number(counters.unknown_removals), labels);
  page.counter("kvist_gateway_kv_clears_total", "Times its cache was cleared", number(counters.clears), labels);
  for (std::size_t i = 0; i < kv_index::kRefusals; ++i) {
    page.counter("kvist_gateway_kv_events_refused_total", "Events that were not taken into the index",
                 number(counters.refused[i]),
                 {{"worker", name}, {"reason", std::string(to_string(static_cast<kv_index::Refusal>(i)))}});
  }
}

void write_trust(const ModelParts& parts, WorkerId id, MetricsPage& page) {
  using routing::CacheTrust;
  const std::string& name = parts.fleet.worker(id).name;
  const Labels labels{{"worker", name}};
  const routing::CacheTrustReport report = parts.trust(id);
  for (const CacheTrust level : {CacheTrust::kNone, CacheTrust::kPredicted, CacheTrust::kExact}) {
    page.gauge("kvist_gateway_cache_trust", "1 for how well the worker's cache is known", report.trust == level ? 1 : 0,
               {{"worker", name}, {"level", std::string(to_string(level))}});
  }
  page.gauge("kvist_gateway_cache_events_share", "Share of the cached tokens expected by its events that it reported",
             report.events_share, labels);
  page.gauge("kvist_gateway_cache_predicted_share", "The same of those expected by what was routed to it",
             report.predicted_share, labels);
  page.gauge("kvist_gateway_cache_events_silent", "1 while it stores blocks but its events have stopped",
             report.events_silent ? 1 : 0, labels);
  page.gauge("kvist_gateway_cache_known_share",
             "Share of the cached tokens its latest answers reported that its events had told of", report.known_share,
             labels);
  page.gauge("kvist_gateway_cache_adopted_prefixes", "Prefixes that routed prompts told of, as no event did",
             number(report.adopted_prefixes), labels);
  page.gauge("kvist_gateway_cache_predicted_blocks", "Distinct blocks of the prompts routed to it of late",
             number(report.predicted_blocks), labels);
  page.gauge("kvist_gateway_cache_predicted_prompts", "Those prompts", number(report.predicted_prompts), labels);
  page.counter("kvist_gateway_cache_corrections_total", "Answers with less cached than expected",
               number(report.corrections), labels);
  page.counter("kvist_gateway_cache_distrusted_total", "Times its answers contradicted its events for long",
               number(report.distrusted), labels);
}

void write_feed(const KvFeedReport& feed, const std::string& worker, MetricsPage& page) {
  const Labels labels{{"worker", worker}};
  const kv::EventSequencer::Counters& sequencer = feed.sequencer;
  page.gauge("kvist_gateway_kv_index_exact", "1 while the event stream is whole", feed.exact ? 1 : 0, labels);
  page.counter("kvist_gateway_kv_batches_applied_total", "Event batches in sequence", number(sequencer.applied),
               labels);
  page.counter("kvist_gateway_kv_gaps_total", "Gaps in the sequence", number(sequencer.gaps), labels);
  page.counter("kvist_gateway_kv_replays_total", "Replays asked for", number(sequencer.replays), labels);
  page.counter("kvist_gateway_kv_resets_total", "Times all blocks of the worker were forgotten",
               number(sequencer.resets), labels);
  page.counter("kvist_gateway_kv_publisher_restarts_total", "Resets because its publisher began anew",
               number(sequencer.restarts), labels);
  page.counter("kvist_gateway_kv_duplicates_total", "Batches that were known already", number(sequencer.duplicates),
               labels);
  page.counter("kvist_gateway_kv_undecodable_batches_total", "Batches that could not be read",
               number(feed.counters.undecodable_batches), labels);
  page.counter("kvist_gateway_kv_skipped_events_total", "Events that could not be read",
               number(feed.counters.skipped_events), labels);
  for (const auto& [field, count] : feed.counters.unknown_fields.counts()) {
    page.counter("kvist_gateway_kv_unknown_fields_total", "Fields of its events that have no meaning here",
                 number(count), {{"worker", worker}, {"field", field}});
  }
  page.counter("kvist_gateway_kv_malformed_messages_total", "Messages that are none of an event publisher",
               number(feed.counters.malformed_messages), labels);
  page.counter("kvist_gateway_kv_dropped_messages_total", "Messages dropped as the inbox was full; replayed later",
               number(feed.dropped_frames), labels);
  page.gauge("kvist_gateway_kv_waiting_bytes", "Messages of its publisher that were not looked at yet",
             number(feed.waiting_bytes), labels);
}

void write_fleet(const ModelParts& parts, const KvEventsReport& events, MetricsPage& page) {
  page.gauge("kvist_gateway_worker_places", "Workers that there can be at once", number(parts.places.size()));
  page.gauge("kvist_gateway_worker_places_vacant", "Of those, the places that nobody has",
             number(parts.places.vacant()));
  page.gauge("kvist_gateway_kv_index_bytes", "Memory of the index", number(events.index_bytes));
  page.counter("kvist_gateway_kv_index_evictions_total", "Blocks forgotten to stay within the index's memory",
               number(events.index_evictions));
  page.gauge("kvist_gateway_kv_index_keys", "Distinct prefixes in the index, over all workers",
             number(events.index_keys));
  for (std::uint32_t i = 0; i < parts.fleet.size(); ++i) {
    if (!parts.is_watched(WorkerId(i))) continue;
    write_worker(parts, WorkerId(i), page);
    write_judgement(parts, WorkerId(i), page);
    write_forecasts(parts, WorkerId(i), page);
    write_index(events.workers[i], parts.fleet.worker(WorkerId(i)).name, page);
    write_trust(parts, WorkerId(i), page);
    if (events.workers[i].feed) write_feed(*events.workers[i].feed, parts.fleet.worker(WorkerId(i)).name, page);
  }
}

void write_model(const ModelParts& parts, const ModelParts::Reports& reports, MetricsPage& page) {
  write_requests(parts, reports.proxies, page);
  write_times(parts, reports.proxies.times, page);
  write_reading(parts, reports.proxies, page);
  if (parts.recorder) write_record(*parts.recorder, page);
  write_routing(parts, page);
  write_fleet(parts, reports.events, page);
}

}  // namespace

void write_metrics(const SharedParts& shared, const ServedModels::Reports& reports, telemetry::MetricsPage& page) {
  telemetry::write_build_info(page, "gateway");
  if (shared.reporter) write_reporting(*shared.reporter, page);
  for (const auto& [listener, tls] : {std::pair("http", shared.tls), std::pair("admin", shared.admin_tls)}) {
    if (!tls) continue;
    page.counter("kvist_gateway_tls_failed_handshakes_total", "TLS handshakes with clients that failed",
                 number(tls->failed_handshakes()), {{"listener", listener}});
  }
  if (shared.keys) write_key_metrics(*shared.keys, page);
  for (const auto& [model, report] : reports.models) {
    if (shared.spec.models.empty()) {
      write_model(model->parts, report, page);
      write_discovery_metrics(model->services, page);
      continue;
    }
    telemetry::LabelledPage labelled(page, {{"model", model->parts.spec.model}});
    write_model(model->parts, report, labelled);
    write_discovery_metrics(model->services, labelled);
  }
  if (!reports.refused.empty()) {
    telemetry::LabelledPage labelled(page, {{"model", ""}});
    write_refused(reports.refused, labelled);
  }
  telemetry::write_process_metrics(page, shared.started_unix_s);
}

}  // namespace kvist::gateway

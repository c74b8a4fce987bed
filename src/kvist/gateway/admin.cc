#include "kvist/gateway/admin.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/json_writer.h"
#include "kvist/base/yaml.h"
#include "kvist/gateway/decisions_query.h"
#include "kvist/gateway/error_answer.h"
#include "kvist/gateway/shared_decisions.h"
#include "kvist/gateway/worker_state.h"
#include "kvist/net/event_loop.h"
#include "kvist/routing/decision_json.h"
#include "kvist/telemetry/log.h"

namespace kvist::gateway {
namespace {

/// Writing the decisions holds the loop up for about 10 ms per MiB.
constexpr std::size_t kMaxDecisionsAnswerBytes = std::size_t{1} << 20;
/// The most bytes of a request that sets the mode, which is read as YAML at about 300 ms per MB.
constexpr std::size_t kMostModeBytes = 1'024;

struct NewMode {
  std::string model = {};  // empty: not said
  spec::RoutingMode mode{};
};

// JSON is YAML, so the configuration's reader can read this body, with its bounds and its error messages.
Result<NewMode> read_mode(std::string_view body) {
  if (body.size() > kMostModeBytes)
    return fail(ErrorCode::kTooLarge, fmt::format("body: expected at most {} bytes", kMostModeBytes));
  KVIST_TRY(const YamlNode document, YamlNode::parse(body, "body"));
  if (!document.is_map()) {
    return fail(ErrorCode::kInvalidArgument, "body: expected an object like {\"mode\":\"kv\"}");
  }
  NewMode read;
  KVIST_TRY(const YamlNode mode, document.require("mode"));
  if (const auto model = document.get("model")) {
    KVIST_TRY(read.model, model->as_string());
  }
  KVIST_TRY_VOID(document.finish());
  KVIST_TRY(const std::string name, mode.as_string());
  KVIST_TRY(read.mode, spec::parse_live_routing_mode(name));
  return read;
}

void write_mode(JsonWriter& json, const ModelParts& parts, bool named) {
  json.begin_object();
  if (named) json.field("model", parts.spec.model);
  json.field("mode", to_string(parts.router.mode())).end_object();
}

net::HttpResponse mode_of(const SharedParts& shared, const ModelParts& parts) {
  JsonWriter json;
  write_mode(json, parts, !shared.spec.models.empty());
  return json_answer(json.take());
}

void write_limits(JsonWriter& json, const routing::EngineLimits& limits, dispatch::LimitSource batch_slots) {
  json.key("limits").begin_object();
  json.field("block_size", limits.block_size).field("kv_blocks", limits.kv_blocks);
  json.field("max_batch_size", limits.max_batch_size).field("max_num_tokens", limits.max_num_tokens);
  json.field("max_batch_size_source", to_string(batch_slots));
  json.end_object();
}

void write_trust(JsonWriter& json, const routing::CacheTrustReport& report) {
  json.key("cache").begin_object();
  json.field("trust", to_string(report.trust)).field("events_share", report.events_share);
  json.field("predicted_share", report.predicted_share).field("predicted_blocks", report.predicted_blocks);
  json.field("predicted_prompts", report.predicted_prompts).field("usage_reports", report.usage_reports);
  json.field("corrections", report.corrections).field("distrusted", report.distrusted);
  json.field("events_silent", report.events_silent).field("known_share", report.known_share);
  json.field("adopted_prefixes", report.adopted_prefixes);
  json.end_object();
}

// Whether special tokens are special where users write them; null if unknown.
void write_reading(JsonWriter& json, const std::optional<text::PromptReading>& reading) {
  json.key("special_tokens");
  if (!reading) {
    json.null();
    return;
  }
  json.begin_object().field("in_chats", reading->specials_in_chats);
  json.field("in_completions", reading->specials_in_completions).end_object();
}

void write_ejection(JsonWriter& json, const dispatch::OutlierWatch& outliers, WorkerId id, TimePoint now) {
  const dispatch::OutlierWatch::Worker& worker = outliers.worker(id);
  json.key("ejection").begin_object().field("state", to_string(worker.state));
  json.field("times", worker.total_ejections()).field("failures_in_a_row", worker.failures_in_a_row);
  json.field("failure_share", outliers.failure_share(id, now));
  if (worker.total_ejections() > 0) {
    json.field("rule", to_string(worker.rule)).field("reason", to_string(worker.failure));
    json.field("problem", worker.problem).field("seconds", to_seconds(worker.time));
    const bool is_out = worker.state == dispatch::Ejection::kOut && worker.until > now;
    json.field("seconds_left", is_out ? to_seconds(worker.until - now) : 0.0);
  }
  json.end_object();
}

void write_model(JsonWriter& json, const dispatch::ModelWatch::Worker& model) {
  json.key("model").begin_object().field("match", to_string(model.match)).field("served", model.served);
  json.field("max_model_len", model.max_model_len);
  json.key("adapters").begin_array();
  for (const std::string& adapter : model.adapters) json.value(adapter);
  json.end_array().end_object();
}

void write_failures(JsonWriter& json, const dispatch::DispatchCounters& counters, WorkerId id) {
  json.key("failures").begin_object();
  for (std::size_t i = 0; i < dispatch::kAttemptFailures; ++i) {
    const std::uint64_t count = counters.failures[id.value()][i];
    if (count > 0) json.field(to_string(static_cast<dispatch::AttemptFailure>(i)), count);
  }
  json.end_object();
}

void write_worker(JsonWriter& json, const ModelParts& parts, const KvEventsReport& events, WorkerId id) {
  const dispatch::Fleet::Worker& worker = parts.fleet.worker(id);
  const routing::WorkerLoad& load = parts.router.loads().load(id);
  const WorkerMonitor& monitor = *parts.monitors[id.value()];
  json.begin_object();
  json.field("name", worker.name).field("url", parts.upstreams[id.value()].url);
  json.field("health", to_string(worker.health)).field("healthy", worker.health == dispatch::WorkerHealth::kHealthy);
  json.field("state", worker_state(parts, id));
  write_ejection(json, parts.dispatcher.outliers(), id, net::now());
  write_model(json, parts.models.worker(id));
  write_failures(json, parts.dispatcher.counters(), id);
  json.field("last_problem", worker.last_problem).field("restarts", monitor.restarts());
  json.field("in_flight", load.requests).field("prefill_tokens", load.prefill_tokens);
  json.field("prompt_blocks", load.prompt_blocks).field("output_tokens", load.output_tokens);
  json.field("indexed_blocks", events.workers[id.value()].blocks);
  json.key("indexed_lower_tier_blocks").begin_object();
  for (std::size_t tier = 0; tier < kv_index::kLowerTiers; ++tier)
    json.field(to_string(static_cast<kv::Medium>(tier + 1)), events.workers[id.value()].lower_tier_blocks[tier]);
  json.end_object();
  json.field("most_waiting", parts.fleet.views()[id.value()].most_waiting);
  json.field("index_exact", parts.events_exact(id));
  write_trust(json, parts.trust(id));
  json.field("tokenizer", to_string(parts.tokenizers[id.value()]->match()));
  write_reading(json, parts.tokenizers[id.value()]->reading());
  json.field("block_size_mismatch", monitor.block_size_mismatch());
  const WorkerReport& report = monitor.report();
  json.field("running", report.running).field("waiting", report.waiting).field("kv_usage", report.kv_usage);
  json.field("kv_blocks_in_use", report.kv_blocks_in_use());
  json.field("stalled", worker.stalled).field("stalls", worker.stalls);
  write_limits(json, parts.fleet.views()[id.value()].limits, parts.fleet.batch_slots_source(id));
  json.end_object();
}

/// `listed`: the model is one of several, so its object has more fields.
void write_model_status(JsonWriter& json, const ServedModel& model, const KvEventsReport& events, bool listed) {
  const ModelParts& parts = model.parts;
  json.begin_object();
  json.field("model", parts.spec.model).field("mode", to_string(parts.router.mode()));
  if (listed) {
    json.field("leaving", model.leaves).key("aliases").begin_array();
    for (const std::string& alias : parts.spec.model_aliases) json.value(alias);
    json.end_array();
  }
  json.field("in_flight", parts.dispatcher.in_flight()).field("held_requests", parts.dispatcher.held());
  json.field("block_size", parts.spec.block_size).field("index_keys", events.index_keys);
  json.key("workers").begin_array();
  for (std::uint32_t i = 0; i < parts.fleet.size(); ++i)
    if (parts.is_watched(WorkerId(i))) write_worker(json, parts, events, WorkerId(i));
  json.end_array().end_object();
}

bool has_decision(const ModelParts& parts, const std::string& request) {
  const routing::DecisionLog& log = parts.router.log();
  for (std::size_t i = 0; i < log.size(); ++i)
    if (log.newest(i).name == request) return true;
  return false;
}

/// A request is looked for in all models; otherwise the query has to tell which model is meant.
Result<ServedModel*> decisions_model(const ServedModels& models, const DecisionsQuery& query) {
  if (query.model.empty() && !query.request.empty()) {
    const std::vector<ServedModel*> all = models.all();
    const auto found =
        std::ranges::find_if(all, [&](const ServedModel* model) { return has_decision(model->parts, query.request); });
    if (found != all.end()) return *found;
    if (!all.empty()) return all.front();
  }
  return model_meant(models, query.model);
}

}  // namespace

Result<ServedModel*> model_meant(const ServedModels& models, std::string_view name) {
  ServedModel* const model = name.empty() ? models.only() : models.find(name);
  if (model != nullptr) return model;
  return std::unexpected(models.unknown(name));
}

net::HttpResponse get_router_mode(const SharedParts& shared, const ServedModels& models,
                                  const net::HttpRequest& request) {
  const auto fields = query_fields(request.target);
  if (!fields) return error_answer(fields.error());
  for (const auto& [key, value] : *fields) {
    if (key != "model")
      return error_answer({ErrorCode::kInvalidArgument, fmt::format("{}: unknown; known is model", key)});
    const auto model = model_meant(models, value);
    return model ? mode_of(shared, (*model)->parts) : error_answer(model.error());
  }
  if (shared.spec.models.empty() && models.only() != nullptr) return mode_of(shared, models.only()->parts);
  JsonWriter json;
  json.begin_object().key("models").begin_array();
  for (const ServedModel* const model : models.all()) write_mode(json, model->parts, true);
  json.end_array().end_object();
  return json_answer(json.take());
}

net::HttpResponse set_router_mode(const SharedParts& shared, const ServedModels& models,
                                  const net::HttpRequest& request) {
  const auto asked = read_mode(request.body);
  if (!asked) return error_answer(asked.error());
  const auto model = model_meant(models, asked->model);
  if (!model) return error_answer(model.error());
  ModelParts& parts = (*model)->parts;
  if (shared.decisions != nullptr) shared.decisions->tell_mode(parts.spec.model, asked->mode);
  if (asked->mode == parts.router.mode()) return mode_of(shared, parts);
  telemetry::log_info("admin", fmt::format("{}: routing mode {} -> {}", parts.spec.model,
                                           to_string(parts.router.mode()), to_string(asked->mode)));
  parts.router.set_mode(asked->mode);
  return mode_of(shared, parts);
}

net::HttpResponse get_decisions(const ServedModels& models, const net::HttpRequest& request) {
  const auto query = parse_decisions_query(request.target);
  if (!query) return error_answer(query.error());
  const auto model = decisions_model(models, *query);
  if (!model) return error_answer(model.error());
  const ModelParts& parts = (*model)->parts;
  std::vector<std::string> names;
  TimePoint named_at{};  // when the names were these
  const routing::DecisionLog& log = parts.router.log();
  std::string decisions;
  std::size_t count = 0;
  bool more = false;
  for (std::size_t i = 0; i < log.size() && count < query->limit; ++i) {
    const routing::DecisionRecord& record = log.newest(i);
    if (!query->request.empty() && record.name != query->request) continue;
    more = decisions.size() > kMaxDecisionsAnswerBytes;
    if (more) break;
    if (names.empty() || std::min(named_at, record.at) < parts.places.changed()) {
      names = parts.places.names_at(record.at);
      named_at = record.at;
    }
    JsonWriter json;
    routing::write_decision(json, record, names);
    decisions += (count++ == 0 ? "[" : ",") + json.take();
  }
  decisions += count == 0 ? "[]" : "]";
  JsonWriter json;
  json.begin_object().field("format", routing::kDecisionsFormat).field("model", parts.spec.model);
  json.field("now_s", to_seconds(net::now().time_since_epoch())).field("total", log.total()).field("more", more);
  json.key("decisions").raw(decisions).end_object();
  return json_answer(json.take());
}

net::HttpResponse get_status(const SharedParts& shared, const ServedModels& models,
                             const ServedModels::Reports& reports) {
  JsonWriter json;
  if (shared.spec.models.empty() && reports.models.size() == 1) {
    write_model_status(json, *reports.models.front().first, reports.models.front().second.events, false);
    return json_answer(json.take());
  }
  json.begin_object().field("in_flight", models.in_flight()).key("models").begin_array();
  for (const auto& [model, report] : reports.models) write_model_status(json, *model, report.events, true);
  json.end_array().end_object();
  return json_answer(json.take());
}

}  // namespace kvist::gateway

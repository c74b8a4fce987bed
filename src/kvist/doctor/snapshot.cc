#include "kvist/doctor/snapshot.h"

#include <algorithm>
#include <array>
#include <utility>

#include "kvist/base/json.h"
#include "kvist/spec/routing_mode.h"
#include "kvist/telemetry/exposition.h"

namespace kvist::doctor {
namespace {

constexpr std::size_t kMostTextBytes = 300;

std::string text_of(const JsonObject& object, std::string_view name) {
  const auto value = object.find_string(name);
  return value && *value ? std::string((*value)->substr(0, kMostTextBytes)) : std::string();
}

bool flag_of(const JsonObject& object, std::string_view name) {
  return object.bool_or(name, false).value_or(false);
}

/// "" where it is missing.
std::string text_within(const JsonObject& object, std::string_view outer, std::string_view name) {
  const auto within = object.find_object(outer);
  return within && *within ? text_of(**within, name) : std::string();
}

WorkerFacts worker_of(const JsonObject& object, const telemetry::MetricSamples& page) {
  WorkerFacts worker{.name = text_of(object, "name"), .url = text_of(object, "url")};
  const auto sum = [&](std::string_view name) { return page.sum(name, "worker", worker.name).value_or(0); };
  GatewayView view{.state = text_of(object, "state"),
                   .last_problem = text_of(object, "last_problem"),
                   .trust = text_within(object, "cache", "trust"),
                   .events_whole = flag_of(object, "index_exact"),
                   .tokenizer = text_of(object, "tokenizer"),
                   .model_match = text_within(object, "model", "match"),
                   .gaps = sum("kvist_gateway_kv_gaps_total"),
                   .resets = sum("kvist_gateway_kv_resets_total"),
                   .unreadable = sum("kvist_gateway_kv_undecodable_batches_total")};
  if (const auto cache = object.find_object("cache"); cache && *cache)
    view.events_silent = flag_of(**cache, "events_silent");
  worker.seen = std::move(view);
  // The gateway has a feed of its events only if it was told where they come from.
  if (page.sum("kvist_gateway_kv_index_exact", "worker", worker.name)) worker.events.address = "(as the gateway knows)";
  return worker;
}

}  // namespace

bool uses_events(spec::RoutingMode mode) {
  using spec::RoutingMode;
  constexpr std::array kBlind = {RoutingMode::kRoundRobin, RoutingMode::kRandom,      RoutingMode::kLeastLoaded,
                                 RoutingMode::kPowerOfTwo, RoutingMode::kBoundedHash, RoutingMode::kSession};
  return std::ranges::find(kBlind, mode) == kBlind.end();
}

namespace {

bool looks_at_events(std::string_view mode) {
  const auto parsed = spec::parse_routing_mode(mode);
  return parsed && uses_events(*parsed);
}

}  // namespace

Result<EngineFacts> read_engine_facts(std::string_view page) {
  KVIST_TRY(const telemetry::MetricSamples samples, telemetry::MetricSamples::parse(page));
  EngineFacts engine;
  if (samples.sum("kvist_build_info")) {
    engine.kind = EngineFacts::Kind::kKvist;
  } else if (samples.sum("vllm:num_requests_running")) {
    engine.kind = EngineFacts::Kind::kVllm;
  } else if (samples.sum("sglang:num_running_reqs")) {
    engine.kind = EngineFacts::Kind::kSglang;
  }
  constexpr std::string_view kConfiguration = "vllm:cache_config_info";
  if (const auto size = samples.label(kConfiguration, "block_size")) {
    constexpr std::uint32_t kMost = 1'000'000;
    std::uint32_t number = 0;
    const bool digits =
        !size->empty() && size->size() < 8 && std::ranges::all_of(*size, [](char c) { return c >= '0' && c <= '9'; });
    if (digits) number = static_cast<std::uint32_t>(std::stoul(std::string(*size)));
    if (number <= kMost) engine.block_size = number;
  }
  if (const auto caching = samples.label(kConfiguration, "enable_prefix_caching")) {
    if (*caching == "True") engine.prefix_caching = true;
    if (*caching == "False" || *caching == "None") engine.prefix_caching = false;
  }
  return engine;
}

namespace {

/// What a gateway says of one model.
Result<Snapshot> model_of(const JsonObject& status, const telemetry::MetricSamples& page) {
  Snapshot snapshot;
  KVIST_TRY(const std::string_view model, status.require_string("model"));
  snapshot.model = model.substr(0, kMostTextBytes);
  snapshot.mode = text_of(status, "mode");
  snapshot.uses_events = looks_at_events(snapshot.mode);
  constexpr std::uint64_t kMostTokens = 1'000'000;
  KVIST_TRY(const std::uint64_t block_size, status.require_unsigned("block_size", 1, kMostTokens));
  snapshot.block_size = static_cast<std::uint32_t>(block_size);
  KVIST_TRY(const JsonArray workers, status.require_array("workers"));
  for (const JsonValue& value : workers) {
    KVIST_TRY(const JsonObject object, value.as_object());
    snapshot.workers.push_back(worker_of(object, page));
  }
  return snapshot;
}

/// The first model with the others in it.
Result<Snapshot> read_models(const JsonObject& status, const telemetry::MetricSamples& page) {
  KVIST_TRY(const JsonArray list, status.require_array("models"));
  std::vector<Snapshot> models;
  for (const JsonValue& value : list) {
    KVIST_TRY(const JsonObject object, value.as_object());
    KVIST_TRY(Snapshot model, model_of(object, page));
    models.push_back(std::move(model));
  }
  if (models.empty()) return status.wrong("models", "expected at least one");
  Snapshot first = std::move(models.front());
  models.erase(models.begin());
  first.further = std::move(models);
  return first;
}

}  // namespace

Result<Snapshot> read_gateway_facts(std::string_view status, std::string_view metrics) {
  JsonDocument document(JsonRules{.root = "/admin/status"});
  KVIST_TRY(const JsonObject root, document.parse_object(status));
  KVIST_TRY(const telemetry::MetricSamples page, telemetry::MetricSamples::parse(metrics));
  Snapshot snapshot;
  if (root.peek("models")) {
    KVIST_TRY(snapshot, read_models(root, page));
  } else {
    KVIST_TRY(snapshot, model_of(root, page));
  }
  snapshot.runs = true;
  snapshot.open_descriptors = page.sum("process_open_fds").value_or(0);
  snapshot.max_descriptors = page.sum("process_max_fds").value_or(0);
  if (const auto connected = page.sum("kvist_gateway_peers_connected")) snapshot.peers_connected = *connected > 0;
  if (const auto share = page.sum("kvist_gateway_peers_share_decisions")) snapshot.peers_share_decisions = *share > 0;
  snapshot.peer_namesakes = page.sum("kvist_gateway_peer_unused_messages_total", "reason", "namesake").value_or(0);
  snapshot.peer_parts_wanted = page.sum("kvist_gateway_peer_parts_wanted").value_or(0);
  snapshot.peer_other_keys = page.sum("kvist_gateway_peer_parts_failed_total", "reason", "other_keys").value_or(0) +
                             page.sum("kvist_gateway_peer_parts_refused_total", "reason", "other_keys").value_or(0);
  snapshot.peer_elsewhere = page.sum("kvist_gateway_peer_requests_elsewhere").value_or(0);
  snapshot.exhaustions = page.sum("kvist_gateway_local_exhaustions_total").value_or(0);
  snapshot.lost_lines = page.sum("kvist_gateway_access_log_lost_total").value_or(0) +
                        page.sum("kvist_gateway_record_lost_total").value_or(0);
  return snapshot;
}

}  // namespace kvist::doctor

// The gateway's settings, read and written.
#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "kvist/base/json_writer.h"
#include "kvist/spec/deployment.h"
#include "kvist/spec/endpoint.h"
#include "kvist/spec/exposure_yaml.h"
#include "kvist/spec/fields.h"
#include "kvist/spec/observation_yaml.h"
#include "kvist/spec/peers_yaml.h"
#include "kvist/spec/resilience_yaml.h"
#include "kvist/spec/routing_yaml.h"
#include "kvist/spec/step_time_yaml.h"
#include "kvist/spec/upstream_yaml.h"
#include "kvist/spec/yaml_writer.h"

namespace kvist::spec {
namespace {

/// A file's name, or a mapping with `file`.
Result<void> read_record(const YamlNode& model, const std::string& base_directory, RecordSpec& record) {
  const auto node = model.get("record");
  if (!node) return {};
  constexpr std::uint64_t kLeastBytes = 64U << 10;
  if (node->is_map()) {
    KVIST_TRY_VOID(read_path(*node, "file", base_directory, record.file));
    KVIST_TRY_VOID(read_field(*node, "files", record.files, 1, 1'000));
    if (const auto bytes = node->get("max_file")) {
      KVIST_TRY(record.max_file_bytes, bytes->as_bytes());
      if (record.max_file_bytes < kLeastBytes) return std::unexpected(bytes->error("must be at least 64 KiB"));
    }
    KVIST_TRY_VOID(node->finish());
    if (record.file.empty()) return std::unexpected(node->error("key \"file\" is missing: what is recorded into?"));
  } else {
    KVIST_TRY_VOID(read_path(model, "record", base_directory, record.file));
  }
  if (record.file.ends_with(".jsonl")) return {};
  return std::unexpected(node->error(fmt::format("\"{}\" does not end in .jsonl", record.file)));
}

void write_record(YamlWriter& out, const RecordSpec& record) {
  if (record.file.empty()) return;
  out.begin_map("record").field("file", record.file);
  out.raw("max_file", fmt::format("{} B", record.max_file_bytes)).field("files", record.files).end_map();
}

void write_patience(YamlWriter& out, const ServedModelSpec& m) {
  const ServedModelSpec usual;
  if (m.model_interval != usual.model_interval) out.field("model_interval", m.model_interval);
  if (m.silence_timeout != usual.silence_timeout) out.field("silence_timeout", m.silence_timeout);
  if (m.stream_idle_timeout != usual.stream_idle_timeout) out.field("stream_idle_timeout", m.stream_idle_timeout);
  if (m.stream_keepalive != usual.stream_keepalive) out.field("stream_keepalive", m.stream_keepalive);
  if (m.send_priority) out.field("send_priority", true);
}

void write_aliases(YamlWriter& out, std::string_view key, const std::vector<std::string>& names) {
  if (names.empty()) return;
  std::string list;
  for (const std::string& name : names) {
    list += list.empty() ? "" : ", ";
    append_json_string(list, name);  // JSON strings are YAML strings
  }
  out.raw(key, "[" + list + "]");
}

/// Behind the last port there is none; then any.
std::uint16_t port_after(std::uint16_t port) {
  return port == 0 ? 0 : static_cast<std::uint16_t>(port + 1);
}

Result<void> read_aliases(const YamlNode& node, std::string_view key, ServedModelSpec& m) {
  const auto list = node.get(key);
  if (!list) return {};
  constexpr std::size_t kMost = 64;
  KVIST_TRY(const auto elements, list->elements());
  std::set<std::string> names = {m.model};
  for (const YamlNode& element : elements) {
    KVIST_TRY(std::string name, element.as_string());
    if (name.empty() || !names.insert(name).second)
      return std::unexpected(element.error(fmt::format("\"{}\" is the model's name already, or no name", name)));
    m.model_aliases.push_back(std::move(name));
  }
  if (elements.size() > kMost) return std::unexpected(list->error(fmt::format("more than {} names", kMost)));
  return {};
}

/// How requests for a model are routed, and its workers judged: what the models of a gateway may have in common.
Result<void> read_routing(const YamlNode& node, ServedModelSpec& m) {
  if (const auto mode = node.get("mode")) {
    KVIST_TRY(const std::string text, mode->as_string());
    const auto live = parse_live_routing_mode(text);
    if (!live) return std::unexpected(mode->error(live.error().message));
    m.mode = *live;
  }
  KVIST_TRY_VOID(read_field(node, "block_size", m.block_size, 1, 4'096));
  KVIST_TRY_VOID(read_field(node, "upstream_timeout", m.upstream_timeout, std::chrono::milliseconds(1)));
  KVIST_TRY_VOID(read_field(node, "health_interval", m.health_interval, std::chrono::milliseconds(10)));
  KVIST_TRY_VOID(read_field(node, "doubt_interval", m.doubt_interval, std::chrono::milliseconds(10)));
  KVIST_TRY_VOID(read_field(node, "max_in_flight", m.max_in_flight, 1, 1'000'000));
  KVIST_TRY_VOID(read_field(node, "max_retries", m.max_retries, 0, 100));
  KVIST_TRY_VOID(read_admission(node, m.admission));
  KVIST_TRY_VOID(read_hold(node, m.hold));
  KVIST_TRY_VOID(read_scaling(node, m.scaling));
  KVIST_TRY_VOID(read_retry_budget(node, m.retry_budget));
  KVIST_TRY_VOID(read_ejection(node, m.ejection));
  KVIST_TRY_VOID(read_migration(node, m.migration));
  KVIST_TRY_VOID(read_field(node, "model_interval", m.model_interval, std::chrono::milliseconds(10)));
  KVIST_TRY_VOID(read_field(node, "silence_timeout", m.silence_timeout, std::chrono::milliseconds(10)));
  KVIST_TRY_VOID(read_field(node, "stream_idle_timeout", m.stream_idle_timeout, Duration(0)));
  KVIST_TRY_VOID(read_field(node, "stream_keepalive", m.stream_keepalive, Duration(0)));
  KVIST_TRY_VOID(read_field(node, "send_priority", m.send_priority));
  KVIST_TRY_VOID(read_field(node, "seed", m.seed, 0, std::numeric_limits<std::int64_t>::max()));
  if (const auto prior = node.get("latency_prior")) KVIST_TRY_VOID(read_step_time(*prior, m.latency_prior));
  KVIST_TRY_VOID(read_tier_weights(node, m.tier_weights));
  KVIST_TRY_VOID(read_warm_up(node, m.warm_up));
  KVIST_TRY_VOID(read_objective(node, m.objective));
  return read_session_affinity(node, m.session_affinity);
}

/// One element of `models`; `m` has what it leaves out. `before`: the number of workers of the models before it.
Result<void> read_element(const YamlNode& node, const std::string& base_directory, std::size_t before,
                          ServedModelSpec& m) {
  KVIST_TRY_VOID(node.require("name"));
  KVIST_TRY_VOID(read_field(node, "name", m.model));
  KVIST_TRY_VOID(read_aliases(node, "aliases", m));
  KVIST_TRY_VOID(read_path(node, "tokenizer", base_directory, m.tokenizer));
  KVIST_TRY_VOID(read_routing(node, m));
  KVIST_TRY_VOID(read_worker_fleet(node, base_directory, before, m));
  KVIST_TRY_VOID(read_record(node, base_directory, m.record));
  return node.finish();
}

/// What no two models may have: a name, the name of a worker, a worker's URL.
class TakenByModels {
 public:
  [[nodiscard]] Result<void> add(const YamlNode& element, const ServedModelSpec& m) {
    KVIST_TRY_VOID(take(element, m, "name", m.model));
    for (const std::string& alias : m.model_aliases) KVIST_TRY_VOID(take(element, m, "name", alias));
    for (const UpstreamSpec& worker : m.workers) {
      KVIST_TRY_VOID(take(element, m, "worker", worker.name));
      const auto [other, is_new] = urls_.emplace(worker.url, Worker{m.model, worker.name});
      if (is_new || other->second.model == m.model) continue;
      return std::unexpected(element.error(
          fmt::format("{} has the url {} of {}, a worker of \"{}\": a worker serves one model (give a model further "
                      "names with `aliases`)",
                      worker.name, worker.url, other->second.name, other->second.model)));
    }
    for (const WorkerGroupSpec& group : m.worker_groups) KVIST_TRY_VOID(take(element, m, "worker", group.name));
    if (m.record.file.empty()) return {};
    return take(element, m, "record", m.record.file);
  }

 private:
  struct Worker {
    std::string model;
    std::string name;
  };
  [[nodiscard]] Result<void> take(const YamlNode& element, const ServedModelSpec& m, std::string_view what,
                                  const std::string& name) {
    const auto [other, is_new] = taken_.emplace(std::pair(what, name), m.model);
    if (is_new) return {};
    return std::unexpected(
        element.error(fmt::format("the {} \"{}\" is that of the model \"{}\" already", what, name, other->second)));
  }

  std::map<std::pair<std::string_view, std::string>, std::string> taken_;  // by what and name: whose it is
  std::map<std::string, Worker> urls_;
};

Result<void> read_models(const YamlNode& gateway, const std::string& base_directory, GatewaySpec& g) {
  const auto list = gateway.get("models");
  if (!list) return {};
  constexpr std::size_t kMost = 64;
  for (const char* key : {"model", "model_aliases", "tokenizer", "workers", "max_workers", "record"}) {
    if (const auto node = gateway.get(key))
      return std::unexpected(node->error("belongs into an element of `models`, beside which it has no meaning"));
  }
  KVIST_TRY(const auto elements, list->elements());
  if (elements.empty() || elements.size() > kMost)
    return std::unexpected(list->error(fmt::format("expected 1 to {} models, got {}", kMost, elements.size())));
  TakenByModels taken;
  std::size_t workers = 0;
  for (const YamlNode& element : elements) {
    ServedModelSpec m = g;
    KVIST_TRY_VOID(read_element(element, base_directory, workers, m));
    KVIST_TRY_VOID(taken.add(element, m));
    workers += m.workers.size() + m.worker_groups.size();
    g.models.push_back(std::move(m));
  }
  // What they have in common is part of each.
  static_cast<ServedModelSpec&>(g) = {};
  return {};
}

void write_model(YamlWriter& out, const ServedModelSpec& m) {
  if (!m.tokenizer.empty()) out.field("tokenizer", m.tokenizer);
  out.field("mode", to_string(m.mode)).field("block_size", m.block_size);
  if (m.max_workers != 0) out.field("max_workers", m.max_workers);
  write_client_tls(out, "worker_tls", m.worker_tls);
  if (!m.worker_api_key_file.empty()) out.field("worker_api_key_file", m.worker_api_key_file);
  write_upstreams(out, m);
  out.field("upstream_timeout", m.upstream_timeout);
  out.field("health_interval", m.health_interval).field("doubt_interval", m.doubt_interval);
  out.field("max_in_flight", m.max_in_flight).field("max_retries", m.max_retries);
  write_admission(out, m.admission);
  write_hold(out, m.hold);
  write_scaling(out, m.scaling);
  write_retry_budget(out, m.retry_budget);
  write_ejection(out, m.ejection);
  write_migration(out, m.migration);
  write_patience(out, m);
  out.field("seed", m.seed);
  write_step_time(out, "latency_prior", m.latency_prior);
  write_tier_weights(out, m.tier_weights);
  write_warm_up(out, m.warm_up);
  write_session_affinity(out, m.session_affinity);
  write_objective(out, m.objective);
  write_record(out, m.record);
}

}  // namespace

Result<void> read_routing_mode(const YamlNode& node, RoutingMode& mode) {
  KVIST_TRY(const std::string text, node.as_string());
  auto parsed = parse_routing_mode(text);
  if (!parsed) return std::unexpected(node.error(parsed.error().message));
  mode = *parsed;
  return {};
}

std::vector<ServedModelSpec> served_models(const GatewaySpec& gateway) {
  if (!gateway.models.empty()) return gateway.models;
  return {gateway};
}

Result<GatewaySpec> read_gateway(const YamlNode& node, const std::string& base_directory) {
  GatewaySpec g;
  KVIST_TRY_VOID(read_endpoint(node, "http", g.http));
  KVIST_TRY_VOID(read_admin(node, g.http, port_after(g.http.port), g.admin));
  KVIST_TRY_VOID(read_cors(node, g.cors));
  KVIST_TRY_VOID(read_server_tls(node, "tls", base_directory, g.tls));
  KVIST_TRY_VOID(read_server_tls(node, "admin_tls", base_directory, g.admin_tls));
  KVIST_TRY_VOID(read_http_limits(node, g.http_limits));
  KVIST_TRY_VOID(read_api_keys(node, base_directory, g.api_keys));
  KVIST_TRY_VOID(read_field(node, "pass_client_keys", g.pass_client_keys));
  KVIST_TRY_VOID(read_field(node, "model", g.model));
  KVIST_TRY_VOID(read_path(node, "tokenizer", base_directory, g.tokenizer));
  KVIST_TRY_VOID(read_aliases(node, "model_aliases", g));
  KVIST_TRY_VOID(read_routing(node, g));
  KVIST_TRY_VOID(read_worker_fleet(node, base_directory, 0, g));
  KVIST_TRY_VOID(read_record(node, base_directory, g.record));
  KVIST_TRY_VOID(read_models(node, base_directory, g));
  KVIST_TRY_VOID(read_field(node, "connect_timeout", g.connect_timeout, std::chrono::milliseconds(1)));
  KVIST_TRY_VOID(read_field(node, "threads", g.threads, 0, 64));
  KVIST_TRY_VOID(read_field(node, "drain_timeout", g.drain_timeout, Duration(0)));
  KVIST_TRY_VOID(read_max_body(node, g.max_body_bytes));
  KVIST_TRY_VOID(read_log(node, g.log));
  KVIST_TRY_VOID(read_access_log(node, base_directory, g.access_log));
  KVIST_TRY_VOID(read_otlp(node, base_directory, g.otlp));
  KVIST_TRY_VOID(read_peers(node, base_directory, g.peers));
  KVIST_TRY_VOID(node.finish());
  return g;
}

std::string to_yaml(const GatewaySpec& g, int indent) {
  YamlWriter out(indent);
  write_endpoint(out, "http", g.http);
  write_endpoint(out, "admin", g.admin);
  write_cors(out, g.cors);
  write_server_tls(out, "tls", g.tls);
  write_server_tls(out, "admin_tls", g.admin_tls);
  write_http_limits(out, g.http_limits);
  write_api_keys(out, g.api_keys);
  if (g.pass_client_keys) out.field("pass_client_keys", true);
  if (g.models.empty()) {
    out.field("model", g.model);
    write_aliases(out, "model_aliases", g.model_aliases);
    write_model(out, g);
  } else {
    out.begin_list("models");
    for (const ServedModelSpec& m : g.models) {
      out.begin_item().field("name", m.model);
      write_aliases(out, "aliases", m.model_aliases);
      write_model(out, m);
      out.end_map();
    }
    out.end_list();
  }
  out.field("connect_timeout", g.connect_timeout);
  if (g.threads != 0) out.field("threads", g.threads);
  if (g.drain_timeout != GatewaySpec().drain_timeout) out.field("drain_timeout", g.drain_timeout);
  out.raw("max_body", fmt::format("{} B", g.max_body_bytes));
  write_log(out, g.log);
  write_access_log(out, g.access_log);
  write_otlp(out, g.otlp);
  write_peers(out, g.peers);
  return out.take();
}

}  // namespace kvist::spec

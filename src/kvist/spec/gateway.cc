// The gateway's settings, read and written.
#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <set>
#include <string_view>

#include <fmt/format.h>

#include "kvist/base/json_writer.h"
#include "kvist/spec/deployment.h"
#include "kvist/spec/endpoint.h"
#include "kvist/spec/exposure_yaml.h"
#include "kvist/spec/fields.h"
#include "kvist/spec/observation_yaml.h"
#include "kvist/spec/resilience_yaml.h"
#include "kvist/spec/routing_yaml.h"
#include "kvist/spec/step_time_yaml.h"
#include "kvist/spec/yaml_writer.h"

namespace kvist::spec {
namespace {

/// "scheme://host:port" and nothing more. With `also_secure`, "schemes" will do too.
Result<void> read_address(const YamlNode& map, std::string_view key, std::string_view scheme, std::string& value,
                          bool also_secure = false) {
  KVIST_TRY_VOID(read_field(map, key, value));
  const auto node = map.get(key);
  if (!node) return {};
  const std::string secure = std::string(scheme) + "s://";
  const std::string prefix = also_secure && value.starts_with(secure) ? secure : std::string(scheme) + "://";
  const std::size_t colon = value.rfind(':');
  const bool has_prefix = value.starts_with(prefix);
  const bool has_port = has_prefix && colon != std::string::npos && colon > prefix.size() && colon + 1 < value.size() &&
                        value.find_first_not_of("0123456789", colon + 1) == std::string::npos;
  if (!has_port || value.find_first_of("/ \t", prefix.size()) != std::string::npos) {
    return std::unexpected(node->error(fmt::format("expected {}host:port, got \"{}\"", prefix, value)));
  }
  return {};
}

Result<void> read_limits(const YamlNode& upstream, UpstreamLimits& limits) {
  const auto node = upstream.get("limits");
  if (!node) return {};
  KVIST_TRY_VOID(read_field(*node, "max_batch_size", limits.max_batch_size, 1, 1'000'000));
  KVIST_TRY_VOID(read_field(*node, "kv_blocks", limits.kv_blocks, 1, 1'000'000'000));
  KVIST_TRY_VOID(read_field(*node, "max_num_tokens", limits.max_num_tokens, 1, 100'000'000));
  return node->finish();
}

/// A file's name, or a mapping with `file`.
Result<void> read_record(const YamlNode& gateway, const std::string& base_directory, RecordSpec& record) {
  const auto node = gateway.get("record");
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
    KVIST_TRY_VOID(read_path(gateway, "record", base_directory, record.file));
  }
  if (record.file.ends_with(".jsonl")) return {};
  return std::unexpected(node->error(fmt::format("\"{}\" does not end in .jsonl", record.file)));
}

void write_record(YamlWriter& out, const RecordSpec& record) {
  if (record.file.empty()) return;
  out.begin_map("record").field("file", record.file);
  out.raw("max_file", fmt::format("{} B", record.max_file_bytes)).field("files", record.files).end_map();
}

void write_patience(YamlWriter& out, const GatewaySpec& g) {
  const GatewaySpec usual;
  if (g.model_interval != usual.model_interval) out.field("model_interval", g.model_interval);
  if (g.silence_timeout != usual.silence_timeout) out.field("silence_timeout", g.silence_timeout);
  if (g.stream_idle_timeout != usual.stream_idle_timeout) out.field("stream_idle_timeout", g.stream_idle_timeout);
  if (g.drain_timeout != usual.drain_timeout) out.field("drain_timeout", g.drain_timeout);
}

void write_aliases(YamlWriter& out, const std::vector<std::string>& names) {
  if (names.empty()) return;
  std::string list;
  for (const std::string& name : names) {
    list += list.empty() ? "" : ", ";
    append_json_string(list, name);  // JSON strings are YAML strings
  }
  out.raw("model_aliases", "[" + list + "]");
}

void write_limits(YamlWriter& out, const UpstreamLimits& limits) {
  if (limits == UpstreamLimits{}) return;
  out.begin_map("limits");
  if (limits.max_batch_size != 0) out.field("max_batch_size", limits.max_batch_size);
  if (limits.kv_blocks != 0) out.field("kv_blocks", limits.kv_blocks);
  if (limits.max_num_tokens != 0) out.field("max_num_tokens", limits.max_num_tokens);
  out.end_map();
}

/// Behind the last port there is none; then any.
std::uint16_t port_after(std::uint16_t port) {
  return port == 0 ? 0 : static_cast<std::uint16_t>(port + 1);
}

Result<WorkerGroupSpec> read_group(const YamlNode& node, const YamlNode& dns, const std::string& base_directory,
                                   const std::string& usual_name) {
  WorkerGroupSpec group;
  group.name = usual_name;
  KVIST_TRY_VOID(read_name(node, "name", group.name));
  KVIST_TRY_VOID(read_field(dns, "name", group.dns_name));
  KVIST_TRY_VOID(dns.require("name"));
  constexpr std::array<Word<bool>, 2> kRecords = {{{"a", false}, {"srv", true}}};
  KVIST_TRY_VOID(read_word(dns, "record", kRecords, group.services));
  KVIST_TRY_VOID(read_field(dns, "port", group.port, 1, 65'535));
  KVIST_TRY_VOID(read_field(dns, "server", group.dns_server));
  KVIST_TRY_VOID(read_field(dns, "interval", group.interval, std::chrono::milliseconds(100)));
  KVIST_TRY_VOID(read_field(dns, "https", group.https));
  KVIST_TRY_VOID(dns.finish());
  KVIST_TRY_VOID(read_field(node, "kv_events_port", group.kv_events_port, 1, 65'535));
  KVIST_TRY_VOID(read_field(node, "kv_replay_port", group.kv_replay_port, 1, 65'535));
  KVIST_TRY_VOID(read_limits(node, group.limits));
  KVIST_TRY_VOID(read_path(node, "api_key_file", base_directory, group.api_key_file));
  KVIST_TRY_VOID(read_client_tls(node, "tls", base_directory, group.tls));
  KVIST_TRY_VOID(node.finish());
  if (group.services && group.port != 0)
    return std::unexpected(dns.error("port: SRV records have the ports; leave it out, or ask for record: a"));
  if (!group.services && group.port == 0)
    return std::unexpected(dns.error("key \"port\" is missing: addresses (record: a) have none"));
  if (group.tls != ClientTlsSpec{} && !group.https) return std::unexpected(node.error("tls is for https: true"));
  if (group.kv_events_port == 0 && group.kv_replay_port != 0)
    return std::unexpected(node.error("kv_replay_port without kv_events_port: there is nothing to replay"));
  return group;
}

void write_group(YamlWriter& out, const WorkerGroupSpec& group) {
  out.begin_item().field("name", group.name);
  out.begin_map("dns").field("name", group.dns_name).field("record", std::string_view(group.services ? "srv" : "a"));
  if (!group.services) out.field("port", group.port);
  if (!group.dns_server.empty()) out.field("server", group.dns_server);
  out.field("interval", group.interval);
  if (group.https) out.field("https", true);
  out.end_map();
  if (group.kv_events_port != 0) out.field("kv_events_port", group.kv_events_port);
  if (group.kv_replay_port != 0) out.field("kv_replay_port", group.kv_replay_port);
  write_limits(out, group.limits);
  write_client_tls(out, "tls", group.tls);
  if (!group.api_key_file.empty()) out.field("api_key_file", group.api_key_file);
  out.end_map();
}

Result<void> read_upstreams(const YamlNode& gateway, const std::string& base_directory,
                            std::vector<UpstreamSpec>& upstreams, std::vector<WorkerGroupSpec>& groups) {
  const auto node = gateway.get("workers");
  if (!node) return {};
  KVIST_TRY(const auto elements, node->elements());
  std::set<std::string> names;
  for (const YamlNode& element : elements) {
    std::string name;
    if (const auto dns = element.get("dns")) {
      const std::string usual_name = fmt::format("group-{}", groups.size());
      KVIST_TRY(WorkerGroupSpec group, read_group(element, *dns, base_directory, usual_name));
      name = group.name;
      groups.push_back(std::move(group));
    } else {
      const std::string usual_name = fmt::format("worker-{}", upstreams.size());
      KVIST_TRY(UpstreamSpec upstream, read_upstream(element, base_directory, usual_name));
      name = upstream.name;
      upstreams.push_back(std::move(upstream));
    }
    if (!names.insert(name).second)
      return std::unexpected(element.error(fmt::format("two workers are called \"{}\"", name)));
  }
  return {};
}

Result<void> read_max_workers(const YamlNode& node, GatewaySpec& g) {
  constexpr std::int64_t kMost = 4'096;
  KVIST_TRY_VOID(read_field(node, "max_workers", g.max_workers, 1, kMost));
  if (g.max_workers != 0 && g.max_workers < g.workers.size()) {
    return std::unexpected(node.get("max_workers")
                               ->error(fmt::format("{} places for {} workers: expected at least as many", g.max_workers,
                                                   g.workers.size())));
  }
  return {};
}

Result<void> read_aliases(const YamlNode& node, GatewaySpec& g) {
  const auto list = node.get("model_aliases");
  if (!list) return {};
  constexpr std::size_t kMost = 64;
  KVIST_TRY(const auto elements, list->elements());
  std::set<std::string> names = {g.model};
  for (const YamlNode& element : elements) {
    KVIST_TRY(std::string name, element.as_string());
    if (name.empty() || !names.insert(name).second)
      return std::unexpected(element.error(fmt::format("\"{}\" is the model's name already, or no name", name)));
    g.model_aliases.push_back(std::move(name));
  }
  if (elements.size() > kMost) return std::unexpected(list->error(fmt::format("more than {} names", kMost)));
  return {};
}

/// `worker_tls`: for https workers that have no `tls` of their own.
Result<void> read_worker_tls(const YamlNode& gateway, const std::string& base_directory, GatewaySpec& g) {
  ClientTlsSpec& shared = g.worker_tls;
  KVIST_TRY_VOID(read_client_tls(gateway, "worker_tls", base_directory, shared));
  for (UpstreamSpec& worker : g.workers) {
    if (worker.tls == ClientTlsSpec{} && worker.url.starts_with("https://")) worker.tls = shared;
  }
  for (WorkerGroupSpec& group : g.worker_groups) {
    if (group.tls == ClientTlsSpec{} && group.https) group.tls = shared;
  }
  return {};
}

/// What a worker is sent, and trusted by, belongs to its URL: calls to one address share their connections.
Result<void> check_shared_urls(const YamlNode& gateway, const std::vector<UpstreamSpec>& workers) {
  std::map<std::string_view, const UpstreamSpec*> first;
  for (const UpstreamSpec& worker : workers) {
    const auto [found, is_new] = first.emplace(worker.url, &worker);
    const UpstreamSpec& other = *found->second;
    const bool same_key = worker.api_key_file == other.api_key_file;
    if (is_new || (same_key && worker.tls == other.tls)) continue;
    return std::unexpected(gateway.error(fmt::format(
        "workers {} and {} have one url, {}, but another {}; give them the same, or leave one of the workers out",
        other.name, worker.name, worker.url, same_key ? "tls" : "api_key_file")));
  }
  return {};
}

}  // namespace

Result<UpstreamSpec> read_upstream(const YamlNode& node, const std::string& base_directory,
                                   const std::string& usual_name) {
  UpstreamSpec upstream;
  upstream.name = usual_name;
  KVIST_TRY_VOID(read_name(node, "name", upstream.name));
  KVIST_TRY_VOID(read_address(node, "url", "http", upstream.url, true));
  KVIST_TRY_VOID(read_address(node, "kv_events", "tcp", upstream.kv_events));
  KVIST_TRY_VOID(read_address(node, "kv_replay", "tcp", upstream.kv_replay));
  KVIST_TRY_VOID(read_limits(node, upstream.limits));
  KVIST_TRY_VOID(read_path(node, "api_key_file", base_directory, upstream.api_key_file));
  KVIST_TRY_VOID(read_client_tls(node, "tls", base_directory, upstream.tls));
  KVIST_TRY_VOID(node.finish());
  if (upstream.url.empty()) return std::unexpected(node.error("key \"url\" is missing"));
  if (upstream.tls != ClientTlsSpec{} && !upstream.url.starts_with("https://"))
    return std::unexpected(node.error("tls is for a url that begins with https://"));
  if (upstream.kv_events.empty() && !upstream.kv_replay.empty()) {
    return std::unexpected(node.error("kv_replay without kv_events: there is nothing to replay"));
  }
  return upstream;
}

std::size_t worker_places(const GatewaySpec& gateway) {
  constexpr std::size_t kSpare = 16;
  constexpr std::size_t kOfGroup = 64;
  const std::size_t workers = gateway.workers.size();
  if (gateway.max_workers != 0) return gateway.max_workers;
  return workers + std::max(workers, kSpare) + kOfGroup * gateway.worker_groups.size();
}

Result<void> read_routing_mode(const YamlNode& node, RoutingMode& mode) {
  KVIST_TRY(const std::string text, node.as_string());
  auto parsed = parse_routing_mode(text);
  if (!parsed) return std::unexpected(node.error(parsed.error().message));
  mode = *parsed;
  return {};
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
  KVIST_TRY_VOID(read_path(node, "worker_api_key_file", base_directory, g.worker_api_key_file));
  KVIST_TRY_VOID(read_field(node, "model", g.model));
  KVIST_TRY_VOID(read_path(node, "tokenizer", base_directory, g.tokenizer));
  if (const auto mode = node.get("mode")) {
    KVIST_TRY_VOID(read_routing_mode(*mode, g.mode));
    if (auto live = require_live(g.mode); !live) return std::unexpected(mode->error(live.error().message));
  }
  KVIST_TRY_VOID(read_aliases(node, g));
  KVIST_TRY_VOID(read_field(node, "block_size", g.block_size, 1, 4'096));
  KVIST_TRY_VOID(read_upstreams(node, base_directory, g.workers, g.worker_groups));
  KVIST_TRY_VOID(read_worker_tls(node, base_directory, g));
  KVIST_TRY_VOID(check_shared_urls(node, g.workers));
  KVIST_TRY_VOID(read_max_workers(node, g));
  KVIST_TRY_VOID(read_field(node, "upstream_timeout", g.upstream_timeout, std::chrono::milliseconds(1)));
  KVIST_TRY_VOID(read_field(node, "connect_timeout", g.connect_timeout, std::chrono::milliseconds(1)));
  KVIST_TRY_VOID(read_field(node, "health_interval", g.health_interval, std::chrono::milliseconds(10)));
  KVIST_TRY_VOID(read_field(node, "doubt_interval", g.doubt_interval, std::chrono::milliseconds(10)));
  KVIST_TRY_VOID(read_field(node, "threads", g.threads, 0, 64));
  KVIST_TRY_VOID(read_field(node, "max_in_flight", g.max_in_flight, 1, 1'000'000));
  KVIST_TRY_VOID(read_field(node, "max_retries", g.max_retries, 0, 100));
  KVIST_TRY_VOID(read_admission(node, g.admission));
  KVIST_TRY_VOID(read_retry_budget(node, g.retry_budget));
  KVIST_TRY_VOID(read_ejection(node, g.ejection));
  KVIST_TRY_VOID(read_migration(node, g.migration));
  KVIST_TRY_VOID(read_field(node, "model_interval", g.model_interval, std::chrono::milliseconds(10)));
  KVIST_TRY_VOID(read_field(node, "silence_timeout", g.silence_timeout, std::chrono::milliseconds(10)));
  KVIST_TRY_VOID(read_field(node, "stream_idle_timeout", g.stream_idle_timeout, Duration(0)));
  KVIST_TRY_VOID(read_field(node, "drain_timeout", g.drain_timeout, Duration(0)));
  if (const auto bytes = node.get("max_body")) {
    KVIST_TRY(g.max_body_bytes, bytes->as_bytes());
    if (g.max_body_bytes < 1'024) return std::unexpected(bytes->error("must be at least 1 KiB"));
  }
  KVIST_TRY_VOID(read_field(node, "seed", g.seed, 0, std::numeric_limits<std::int64_t>::max()));
  if (const auto prior = node.get("latency_prior")) KVIST_TRY_VOID(read_step_time(*prior, g.latency_prior));
  KVIST_TRY_VOID(read_tier_weights(node, g.tier_weights));
  KVIST_TRY_VOID(read_warm_up(node, g.warm_up));
  KVIST_TRY_VOID(read_session_affinity(node, g.session_affinity));
  KVIST_TRY_VOID(read_record(node, base_directory, g.record));
  KVIST_TRY_VOID(read_log(node, g.log));
  KVIST_TRY_VOID(read_access_log(node, base_directory, g.access_log));
  KVIST_TRY_VOID(read_otlp(node, g.otlp));
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
  if (!g.worker_api_key_file.empty()) out.field("worker_api_key_file", g.worker_api_key_file);
  out.field("model", g.model);
  write_aliases(out, g.model_aliases);
  if (!g.tokenizer.empty()) out.field("tokenizer", g.tokenizer);
  out.field("mode", to_string(g.mode)).field("block_size", g.block_size);
  if (g.max_workers != 0) out.field("max_workers", g.max_workers);
  write_client_tls(out, "worker_tls", g.worker_tls);
  if (!g.workers.empty() || !g.worker_groups.empty()) {
    out.begin_list("workers");
    for (const UpstreamSpec& upstream : g.workers) {
      out.begin_item().field("name", upstream.name).field("url", upstream.url);
      if (!upstream.kv_events.empty()) out.field("kv_events", upstream.kv_events);
      if (!upstream.kv_replay.empty()) out.field("kv_replay", upstream.kv_replay);
      write_limits(out, upstream.limits);
      write_client_tls(out, "tls", upstream.tls);
      if (!upstream.api_key_file.empty()) out.field("api_key_file", upstream.api_key_file);
      out.end_map();
    }
    for (const WorkerGroupSpec& group : g.worker_groups) write_group(out, group);
    out.end_list();
  }
  out.field("upstream_timeout", g.upstream_timeout).field("connect_timeout", g.connect_timeout);
  out.field("health_interval", g.health_interval).field("doubt_interval", g.doubt_interval);
  if (g.threads != 0) out.field("threads", g.threads);
  out.field("max_in_flight", g.max_in_flight).field("max_retries", g.max_retries);
  write_admission(out, g.admission);
  write_retry_budget(out, g.retry_budget);
  write_ejection(out, g.ejection);
  write_migration(out, g.migration);
  write_patience(out, g);
  out.raw("max_body", fmt::format("{} B", g.max_body_bytes)).field("seed", g.seed);
  write_step_time(out, "latency_prior", g.latency_prior);
  write_tier_weights(out, g.tier_weights);
  write_warm_up(out, g.warm_up);
  write_session_affinity(out, g.session_affinity);
  write_record(out, g.record);
  write_log(out, g.log);
  write_access_log(out, g.access_log);
  write_otlp(out, g.otlp);
  return out.take();
}

}  // namespace kvist::spec

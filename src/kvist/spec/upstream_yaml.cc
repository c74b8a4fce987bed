// The workers of a model in the gateway's settings, read and written.
#include "kvist/spec/upstream_yaml.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <map>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "kvist/spec/exposure_yaml.h"
#include "kvist/spec/fields.h"
#include "kvist/spec/kubernetes_source_yaml.h"

namespace kvist::spec {
namespace {

/// "host:port", where an IPv6 address has brackets, and the port is one that can be connected to.
bool is_host_and_port(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return false;
  std::string_view host = text.substr(0, colon);
  const std::string_view digits = text.substr(colon + 1);
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (error != std::errc() || end != digits.data() + digits.size() || port == 0) return false;
  const bool has_brackets = host.starts_with('[') && host.ends_with(']');
  if (has_brackets) host = host.substr(1, host.size() - 2);
  return !host.empty() && host.find_first_of(has_brackets ? "[]/?#@ \t" : "[]:/?#@ \t") == std::string_view::npos;
}

/// "scheme://host:port" and nothing more. With `also_secure`, "schemes" will do too.
Result<void> read_address(const YamlNode& map, std::string_view key, std::string_view scheme, std::string& value,
                          bool also_secure = false) {
  KVIST_TRY_VOID(read_field(map, key, value));
  const auto node = map.get(key);
  if (!node) return {};
  const std::string secure = std::string(scheme) + "s://";
  const std::string prefix = also_secure && value.starts_with(secure) ? secure : std::string(scheme) + "://";
  // What may be a password is not repeated.
  if (value.contains('@')) {
    return std::unexpected(node->error(
        fmt::format("expected {}host:port, without a user name or password (api_key_file is for a key)", prefix)));
  }
  if (!value.starts_with(prefix) || !is_host_and_port(std::string_view(value).substr(prefix.size())))
    return std::unexpected(node->error(fmt::format("expected {}host:port, got \"{}\"", prefix, value)));
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

void write_limits(YamlWriter& out, const UpstreamLimits& limits) {
  if (limits == UpstreamLimits{}) return;
  out.begin_map("limits");
  if (limits.max_batch_size != 0) out.field("max_batch_size", limits.max_batch_size);
  if (limits.kv_blocks != 0) out.field("kv_blocks", limits.kv_blocks);
  if (limits.max_num_tokens != 0) out.field("max_num_tokens", limits.max_num_tokens);
  out.end_map();
}

Result<void> read_dns_source(const YamlNode& dns, WorkerGroupSpec& group) {
  KVIST_TRY_VOID(read_field(dns, "name", group.dns_name));
  KVIST_TRY_VOID(dns.require("name"));
  constexpr std::array<Word<bool>, 2> kRecords = {{{"a", false}, {"srv", true}}};
  KVIST_TRY_VOID(read_word(dns, "record", kRecords, group.services));
  KVIST_TRY_VOID(read_field(dns, "port", group.port, 1, 65'535));
  KVIST_TRY_VOID(read_field(dns, "server", group.dns_server));
  KVIST_TRY_VOID(read_field(dns, "interval", group.interval, std::chrono::milliseconds(100)));
  KVIST_TRY_VOID(read_field(dns, "https", group.https));
  KVIST_TRY_VOID(dns.finish());
  if (group.services && group.port != 0)
    return std::unexpected(dns.error("port: SRV records have the ports; leave it out, or ask for record: a"));
  if (!group.services && group.port == 0)
    return std::unexpected(dns.error("key \"port\" is missing: addresses (record: a) have none"));
  return {};
}

/// Requires: the element has a source, so that it is no worker of its own.
Result<void> read_source(const YamlNode& node, const std::string& base_directory, WorkerGroupSpec& group) {
  const auto dns = node.get("dns");
  const auto kubernetes = node.get("kubernetes");
  if (dns && kubernetes) return std::unexpected(node.error("dns and kubernetes: a group has one source"));
  if (dns) return read_dns_source(*dns, group);
  return read_kubernetes_source(*kubernetes, base_directory, group);
}

Result<WorkerGroupSpec> read_group(const YamlNode& node, const std::string& base_directory,
                                   const std::string& usual_name) {
  WorkerGroupSpec group;
  group.name = usual_name;
  KVIST_TRY_VOID(read_name(node, "name", group.name));
  KVIST_TRY_VOID(read_source(node, base_directory, group));
  KVIST_TRY_VOID(read_field(node, "kv_events_port", group.kv_events_port, 1, 65'535));
  KVIST_TRY_VOID(read_field(node, "kv_replay_port", group.kv_replay_port, 1, 65'535));
  KVIST_TRY_VOID(read_limits(node, group.limits));
  KVIST_TRY_VOID(read_path(node, "api_key_file", base_directory, group.api_key_file));
  KVIST_TRY_VOID(read_client_tls(node, "tls", base_directory, group.tls));
  KVIST_TRY_VOID(node.finish());
  if (group.tls != ClientTlsSpec{} && !group.https) return std::unexpected(node.error("tls is for https: true"));
  if (group.kv_events_port == 0 && group.kv_replay_port != 0)
    return std::unexpected(node.error("kv_replay_port without kv_events_port: there is nothing to replay"));
  return group;
}

void write_dns_source(YamlWriter& out, const WorkerGroupSpec& group) {
  out.begin_map("dns").field("name", group.dns_name).field("record", std::string_view(group.services ? "srv" : "a"));
  if (!group.services) out.field("port", group.port);
  if (!group.dns_server.empty()) out.field("server", group.dns_server);
  out.field("interval", group.interval);
  if (group.https) out.field("https", true);
  out.end_map();
}

void write_group(YamlWriter& out, const WorkerGroupSpec& group) {
  out.begin_item().field("name", group.name);
  if (group.kubernetes) {
    write_kubernetes_source(out, group);
  } else {
    write_dns_source(out, group);
  }
  if (group.kv_events_port != 0) out.field("kv_events_port", group.kv_events_port);
  if (group.kv_replay_port != 0) out.field("kv_replay_port", group.kv_replay_port);
  write_limits(out, group.limits);
  write_client_tls(out, "tls", group.tls);
  if (!group.api_key_file.empty()) out.field("api_key_file", group.api_key_file);
  out.end_map();
}

Result<void> read_upstreams(const YamlNode& model, const std::string& base_directory, std::size_t before,
                            std::vector<UpstreamSpec>& upstreams, std::vector<WorkerGroupSpec>& groups) {
  const auto node = model.get("workers");
  if (!node) return {};
  KVIST_TRY(const auto elements, node->elements());
  std::set<std::string> names;
  for (const YamlNode& element : elements) {
    std::string name;
    if (element.get("dns") || element.get("kubernetes")) {
      const std::string usual_name = fmt::format("group-{}", before + groups.size());
      KVIST_TRY(WorkerGroupSpec group, read_group(element, base_directory, usual_name));
      name = group.name;
      groups.push_back(std::move(group));
    } else {
      const std::string usual_name = fmt::format("worker-{}", before + upstreams.size());
      KVIST_TRY(UpstreamSpec upstream, read_upstream(element, base_directory, usual_name));
      name = upstream.name;
      upstreams.push_back(std::move(upstream));
    }
    if (!names.insert(name).second)
      return std::unexpected(element.error(fmt::format("two workers are called \"{}\"", name)));
  }
  return {};
}

Result<void> read_max_workers(const YamlNode& node, ServedModelSpec& m) {
  constexpr std::int64_t kMost = 4'096;
  KVIST_TRY_VOID(read_field(node, "max_workers", m.max_workers, 1, kMost));
  if (m.max_workers != 0 && m.max_workers < m.workers.size()) {
    return std::unexpected(node.get("max_workers")
                               ->error(fmt::format("{} places for {} workers: expected at least as many", m.max_workers,
                                                   m.workers.size())));
  }
  return {};
}

/// `worker_tls`: for https workers that have no `tls` of their own.
Result<void> read_worker_tls(const YamlNode& model, const std::string& base_directory, ServedModelSpec& m) {
  ClientTlsSpec& shared = m.worker_tls;
  KVIST_TRY_VOID(read_client_tls(model, "worker_tls", base_directory, shared));
  for (UpstreamSpec& worker : m.workers) {
    if (worker.tls == ClientTlsSpec{} && worker.url.starts_with("https://")) worker.tls = shared;
  }
  for (WorkerGroupSpec& group : m.worker_groups) {
    if (group.tls == ClientTlsSpec{} && group.https) group.tls = shared;
  }
  return {};
}

/// What a worker is sent, and trusted by, belongs to its URL: calls to one address share their connections.
Result<void> check_shared_urls(const YamlNode& model, const std::vector<UpstreamSpec>& workers) {
  std::map<std::string_view, const UpstreamSpec*> first;
  for (const UpstreamSpec& worker : workers) {
    const auto [found, is_new] = first.emplace(worker.url, &worker);
    const UpstreamSpec& other = *found->second;
    const bool same_key = worker.api_key_file == other.api_key_file;
    if (is_new || (same_key && worker.tls == other.tls)) continue;
    return std::unexpected(model.error(fmt::format(
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

std::size_t worker_places(const ServedModelSpec& model) {
  constexpr std::size_t kSpare = 16;
  constexpr std::size_t kOfGroup = 64;
  const std::size_t workers = model.workers.size();
  if (model.max_workers != 0) return model.max_workers;
  return workers + std::max(workers, kSpare) + kOfGroup * model.worker_groups.size();
}

Result<void> read_worker_fleet(const YamlNode& node, const std::string& base_directory, std::size_t before,
                               ServedModelSpec& m) {
  KVIST_TRY_VOID(read_path(node, "worker_api_key_file", base_directory, m.worker_api_key_file));
  KVIST_TRY_VOID(read_upstreams(node, base_directory, before, m.workers, m.worker_groups));
  KVIST_TRY_VOID(read_worker_tls(node, base_directory, m));
  KVIST_TRY_VOID(check_shared_urls(node, m.workers));
  return read_max_workers(node, m);
}

void write_upstreams(YamlWriter& out, const ServedModelSpec& m) {
  if (m.workers.empty() && m.worker_groups.empty()) return;
  out.begin_list("workers");
  for (const UpstreamSpec& upstream : m.workers) {
    out.begin_item().field("name", upstream.name).field("url", upstream.url);
    if (!upstream.kv_events.empty()) out.field("kv_events", upstream.kv_events);
    if (!upstream.kv_replay.empty()) out.field("kv_replay", upstream.kv_replay);
    write_limits(out, upstream.limits);
    write_client_tls(out, "tls", upstream.tls);
    if (!upstream.api_key_file.empty()) out.field("api_key_file", upstream.api_key_file);
    out.end_map();
  }
  for (const WorkerGroupSpec& group : m.worker_groups) write_group(out, group);
  out.end_list();
}

}  // namespace kvist::spec

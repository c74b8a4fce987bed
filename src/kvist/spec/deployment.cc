// Reads and writes deployments, and checks that workers and gateway fit together.
#include "kvist/spec/deployment.h"

#include <set>

#include <fmt/format.h>

#include "kvist/spec/endpoint.h"
#include "kvist/spec/fields.h"
#include "kvist/spec/yaml_writer.h"

namespace kvist::spec {
namespace {

constexpr std::int64_t kMaxWorkers = 1'024;

/// `workers` as a mapping: `count` workers with the same settings.
Result<std::vector<WorkerSpec>> read_shared(const YamlNode& node, const std::string& base_directory) {
  std::uint32_t count = 1;
  KVIST_TRY_VOID(read_field(node, "count", count, 1, kMaxWorkers));
  WorkerSpec shared;
  shared.name = "worker";
  KVIST_TRY_VOID(read_worker_fields(node, base_directory, shared));
  if (count > 1 &&
      (shared.http.port != 0 || shared.admin.port != 0 || shared.kv_events_port != 0 || shared.kv_replay_port != 0)) {
    return std::unexpected(
        node.error(fmt::format("{} workers cannot share a port: leave the ports out, or list the workers", count)));
  }
  std::vector<WorkerSpec> workers(count, shared);
  for (std::size_t i = 0; i < workers.size(); ++i) workers[i].name = fmt::format("{}-{}", shared.name, i);
  return workers;
}

Result<std::vector<WorkerSpec>> read_workers(const YamlNode& node, const std::string& base_directory) {
  if (!node.is_sequence()) return read_shared(node, base_directory);
  KVIST_TRY(const auto elements, node.elements());
  std::vector<WorkerSpec> workers;
  std::set<std::string> names;
  for (const YamlNode& element : elements) {
    WorkerSpec worker;
    worker.name = fmt::format("worker-{}", workers.size());
    KVIST_TRY_VOID(read_worker_fields(element, base_directory, worker));
    if (!names.insert(worker.name).second) {
      return std::unexpected(element.error(fmt::format("two workers are called \"{}\"", worker.name)));
    }
    workers.push_back(std::move(worker));
  }
  if (workers.empty()) return std::unexpected(node.error("at least one worker is needed"));
  if (workers.size() > kMaxWorkers)
    return std::unexpected(node.error(fmt::format("more than {} workers", kMaxWorkers)));
  return workers;
}

Result<GatewaySpec> read_gateway_part(const YamlNode& deployment, const std::string& base_directory,
                                      const std::vector<WorkerSpec>& workers) {
  GatewaySpec gateway;
  const auto node = deployment.get("gateway");
  if (node) {
    KVIST_TRY(gateway, read_gateway(*node, base_directory));
  }
  if (!gateway.workers.empty()) {
    return std::unexpected(
        node->get("workers")->error("the gateway of a deployment takes the workers listed beside it"));
  }
  for (const char* key : {"tls", "admin_tls", "worker_tls"}) {
    if (!node || !node->get(key)) continue;
    return std::unexpected(node->get(key)->error(
        "the parts of a deployment talk plain HTTP on one machine: use `kvist gateway` and `kvist worker`"));
  }
  for (const WorkerSpec& worker : workers) {
    if (worker.tls != ServerTlsSpec{})
      return std::unexpected(deployment.error(
          fmt::format("{} has tls: the parts of a deployment talk plain HTTP on one machine", worker.name)));
  }
  if (gateway.api_keys != ApiKeysSpec{}) {
    return std::unexpected(node->get("api_keys")
                               ->error("a deployment takes no keys, because what starts it asks the gateway without "
                                       "one: use `kvist gateway`"));
  }
  if (!node || !node->get("model")) gateway.model = workers.front().model;
  if (!node || !node->get("tokenizer")) gateway.tokenizer = workers.front().tokenizer;
  if (!node || !node->get("block_size")) gateway.block_size = workers.front().block_size;
  for (const WorkerSpec& worker : workers) {
    const YamlNode& blamed = node ? *node : deployment;
    if (worker.model != gateway.model) {
      return std::unexpected(blamed.error(
          fmt::format("the gateway serves model \"{}\", {} serves \"{}\"", gateway.model, worker.name, worker.model)));
    }
    if (worker.tokenizer != gateway.tokenizer) {
      return std::unexpected(blamed.error(
          fmt::format("the gateway's tokenizer is \"{}\", that of {} is \"{}\": their KV events would not match",
                      gateway.tokenizer, worker.name, worker.tokenizer)));
    }
    if (worker.block_size != gateway.block_size) {
      return std::unexpected(
          blamed.error(fmt::format("the gateway's block_size is {}, that of {} is {}: their KV events would not match",
                                   gateway.block_size, worker.name, worker.block_size)));
    }
  }
  return gateway;
}

}  // namespace

Result<DeploymentSpec> read_deployment(const YamlNode& node, const std::string& base_directory) {
  DeploymentSpec deployment;
  KVIST_TRY_VOID(read_name(node, "name", deployment.name));
  const auto gateway = node.get("gateway");  // asked for before finish(), read after the workers
  const auto workers = node.get("workers");
  KVIST_TRY_VOID(node.finish());
  if (!workers) return std::unexpected(node.error("key \"workers\" is missing"));
  KVIST_TRY(deployment.workers, read_workers(*workers, base_directory));
  KVIST_TRY(deployment.gateway, read_gateway_part(node, base_directory, deployment.workers));
  return deployment;
}

std::string to_yaml(const DeploymentSpec& deployment, int indent) {
  YamlWriter out(indent);
  out.field("name", deployment.name);
  GatewaySpec gateway = deployment.gateway;
  gateway.workers.clear();  // these are addresses of one start; the workers below are the settings
  out.begin_map("gateway").lines(to_yaml(gateway, out.indent())).end_map();
  out.begin_list("workers");
  for (const WorkerSpec& worker : deployment.workers) {
    std::string lines = to_yaml(worker, out.indent() + 2);
    lines[static_cast<std::size_t>(out.indent())] = '-';
    out.lines(lines);
  }
  out.end_list();
  return out.take();
}

}  // namespace kvist::spec

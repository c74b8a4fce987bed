// Reads and writes deployments, and checks that workers and gateway fit together.
#include "kvist/spec/deployment.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "kvist/spec/endpoint.h"
#include "kvist/spec/fields.h"
#include "kvist/spec/kubernetes_deployment_yaml.h"
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

/// A worker must be what the gateway's model says of it.
Result<void> check_worker(const YamlNode& blamed, const ServedModelSpec& model, const WorkerSpec& worker) {
  if (worker.model != model.model) {
    return std::unexpected(blamed.error(
        fmt::format("the gateway serves model \"{}\", {} serves \"{}\"", model.model, worker.name, worker.model)));
  }
  if (worker.tokenizer != model.tokenizer) {
    return std::unexpected(blamed.error(
        fmt::format("the gateway's tokenizer is \"{}\", that of {} is \"{}\": their KV events would not match",
                    model.tokenizer, worker.name, worker.tokenizer)));
  }
  if (worker.block_size != model.block_size) {
    return std::unexpected(
        blamed.error(fmt::format("the gateway's block_size is {}, that of {} is {}: their KV events would not match",
                                 model.block_size, worker.name, worker.block_size)));
  }
  return {};
}

/// The first worker of the model; null if there is none.
const WorkerSpec* first_worker(const std::vector<WorkerSpec>& workers, const std::string& model) {
  const auto found = std::ranges::find(workers, model, &WorkerSpec::model);
  return found == workers.end() ? nullptr : &*found;
}

/// Each model of the gateway takes the workers that serve it.
Result<void> fit_models(const YamlNode& gateway, const std::vector<WorkerSpec>& workers, GatewaySpec& g) {
  KVIST_TRY(const YamlNode list, gateway.require("models"));
  KVIST_TRY(const auto elements, list.elements());
  for (std::size_t i = 0; i < elements.size(); ++i) {
    ServedModelSpec& model = g.models[i];
    if (const auto own = elements[i].get("workers"))
      return std::unexpected(own->error("the gateway of a deployment takes the workers listed beside it"));
    const WorkerSpec* const first = first_worker(workers, model.model);
    if (first == nullptr)
      return std::unexpected(elements[i].error(fmt::format("no worker serves \"{}\"", model.model)));
    if (!elements[i].get("tokenizer")) model.tokenizer = first->tokenizer;
    if (!elements[i].get("block_size") && !gateway.get("block_size")) model.block_size = first->block_size;
  }
  for (const WorkerSpec& worker : workers) {
    const auto model = std::ranges::find(g.models, worker.model, &ServedModelSpec::model);
    if (model == g.models.end())
      return std::unexpected(
          list.error(fmt::format("{} serves \"{}\", which is not listed", worker.name, worker.model)));
    KVIST_TRY_VOID(check_worker(elements[static_cast<std::size_t>(model - g.models.begin())], *model, worker));
  }
  return {};
}

/// What no part of a deployment has: keys and TLS.
Result<void> check_plain(const YamlNode& deployment, const GatewaySpec& gateway,
                         const std::vector<WorkerSpec>& workers) {
  const auto node = deployment.get("gateway");
  for (const char* key : {"tls", "admin_tls", "worker_tls"}) {
    if (!node || !node->get(key)) continue;
    return std::unexpected(node->get(key)->error(
        "the parts of a deployment talk plain HTTP on one machine: use `kvist gateway` and `kvist worker`"));
  }
  for (const WorkerSpec& worker : workers) {
    if (worker.tls != ServerTlsSpec{} || worker.admin_tls != ServerTlsSpec{})
      return std::unexpected(deployment.error(
          fmt::format("{} has tls: the parts of a deployment talk plain HTTP on one machine", worker.name)));
    if (!worker.api_key_file.empty())
      return std::unexpected(deployment.error(fmt::format(
          "{} has api_key_file: the parts of a deployment take no keys; use `kvist gateway` and `kvist worker`",
          worker.name)));
  }
  if (gateway.api_keys != ApiKeysSpec{}) {
    return std::unexpected(node->get("api_keys")
                               ->error("a deployment takes no keys, because what starts it asks the gateway without "
                                       "one: use `kvist gateway`"));
  }
  return {};
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
  KVIST_TRY_VOID(check_plain(deployment, gateway, workers));
  if (!gateway.models.empty()) {
    KVIST_TRY_VOID(fit_models(*node, workers, gateway));
    return gateway;
  }
  if (!node || !node->get("model")) gateway.model = workers.front().model;
  if (!node || !node->get("tokenizer")) gateway.tokenizer = workers.front().tokenizer;
  if (!node || !node->get("block_size")) gateway.block_size = workers.front().block_size;
  for (const WorkerSpec& worker : workers) KVIST_TRY_VOID(check_worker(node ? *node : deployment, gateway, worker));
  return gateway;
}

}  // namespace

Result<DeploymentSpec> read_deployment(const YamlNode& node, const std::string& base_directory) {
  DeploymentSpec deployment;
  KVIST_TRY_VOID(read_name(node, "name", deployment.name));
  const auto gateway = node.get("gateway");  // asked for before finish(), read after the workers
  const auto workers = node.get("workers");
  const auto kubernetes = node.get("kubernetes");
  KVIST_TRY_VOID(node.finish());
  if (kubernetes) {
    KVIST_TRY(deployment.kubernetes, read_kubernetes_deployment(*kubernetes, base_directory));
  }
  if (!workers) return std::unexpected(node.error("key \"workers\" is missing"));
  KVIST_TRY(deployment.workers, read_workers(*workers, base_directory));
  KVIST_TRY(deployment.gateway, read_gateway_part(node, base_directory, deployment.workers));
  return deployment;
}

std::string to_yaml(const DeploymentSpec& deployment, int indent) {
  YamlWriter out(indent);
  out.field("name", deployment.name);
  if (deployment.kubernetes) write_kubernetes_deployment(out, *deployment.kubernetes);
  GatewaySpec gateway = deployment.gateway;
  gateway.workers.clear();  // these are addresses of one start; the workers below are the settings
  for (ServedModelSpec& model : gateway.models) model.workers.clear();
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

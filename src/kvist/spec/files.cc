#include "kvist/spec/files.h"

#include <filesystem>
#include <system_error>

#include "kvist/base/yaml.h"

namespace kvist::spec {
namespace {

/// The mapping under `key`, which has to be the only one in the file.
Result<YamlNode> load_root(const std::string& path, std::string_view key) {
  KVIST_TRY(const YamlNode root, YamlNode::load(path));
  KVIST_TRY(YamlNode node, root.require(key));
  KVIST_TRY_VOID(root.finish());
  return node;
}

/// Whether the file describes more than a deployment: what is done with it.
bool is_sweep(const YamlNode& root) {
  return root.is_map() && (root.get("workload") || root.get("method") || root.get("levels"));
}

/// The base of relative paths in the file: its folder as an absolute path, so that they stay valid when the settings
/// are written elsewhere.
std::string folder_of(const std::string& path) {
  std::error_code error;
  const auto absolute = std::filesystem::absolute(path, error);
  return (error ? std::filesystem::path(path) : absolute).parent_path().lexically_normal().string();
}

}  // namespace

Result<WorkerSpec> load_worker(const std::string& path) {
  KVIST_TRY(const YamlNode node, load_root(path, "worker"));
  return read_worker(node, folder_of(path));
}

Result<GatewaySpec> load_gateway(const std::string& path) {
  KVIST_TRY(const YamlNode node, load_root(path, "gateway"));
  KVIST_TRY(GatewaySpec gateway, read_gateway(node, folder_of(path)));
  for (const ServedModelSpec& model : served_models(gateway)) {
    if (!model.workers.empty() || !model.worker_groups.empty()) continue;
    if (gateway.models.empty()) return std::unexpected(node.error("`workers` names no worker to route to"));
    return std::unexpected(node.error("`workers` of the model \"" + model.model + "\" names no worker to route to"));
  }
  return gateway;
}

Result<DeploymentSpec> load_deployment(const std::string& path) {
  KVIST_TRY(const YamlNode node, load_root(path, "deployment"));
  return read_deployment(node, folder_of(path));
}

Result<DeploymentSpec> load_deployment_of_one_model(const std::string& path) {
  KVIST_TRY(const YamlNode root, YamlNode::load(path));
  if (is_sweep(root)) {
    KVIST_TRY(SweepSpec sweep, read_sweep(root, folder_of(path)));
    if (!sweep.deployment.workers.empty()) return std::move(sweep.deployment);
    return std::unexpected(root.error("a sweep of a running target has no `deployment`"));
  }
  KVIST_TRY(const YamlNode node, load_root(path, "deployment"));
  KVIST_TRY(DeploymentSpec deployment, read_deployment(node, folder_of(path)));
  if (deployment.gateway.models.empty()) return deployment;
  return std::unexpected(node.error("the gateway serves several models: describe one alone, without `models`"));
}

Result<WorkloadSpec> load_workload(const std::string& path) {
  KVIST_TRY(const YamlNode node, load_root(path, "workload"));
  return read_workload(node, folder_of(path));
}

Result<SweepSpec> load_sweep(const std::string& path) {
  KVIST_TRY(const YamlNode root, YamlNode::load(path));
  return read_sweep(root, folder_of(path));
}

}  // namespace kvist::spec

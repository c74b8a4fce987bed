#include "kvist/spec/kubernetes_deployment_yaml.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "kvist/spec/fields.h"

namespace kvist::spec {
namespace {

bool is_quantity(std::string_view text) {
  const auto end = std::ranges::find_if_not(text, [](char c) { return (c >= '0' && c <= '9') || c == '.'; });
  const std::string_view number = text.substr(0, static_cast<std::size_t>(end - text.begin()));
  const std::string_view unit = text.substr(number.size());
  constexpr std::string_view kUnits[] = {"", "m", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti"};
  return !number.empty() && number.front() != '.' && number.back() != '.' && std::ranges::count(number, '.') <= 1 &&
         std::ranges::find(kUnits, unit) != std::end(kUnits);
}

Result<void> read_quantity(const YamlNode& node, const char* key, std::string& quantity) {
  const auto given = node.get(key);
  if (!given) return {};
  KVIST_TRY(quantity, given->as_string());
  if (is_quantity(quantity)) return {};
  return std::unexpected(given->error(
      fmt::format("expected a quantity as Kubernetes writes them, such as 4, 500m or 8Gi, got \"{}\"", quantity)));
}

Result<void> read_resources(const YamlNode& node, const char* key, ContainerResourcesSpec& resources) {
  const auto given = node.get(key);
  if (!given) return {};
  KVIST_TRY_VOID(read_quantity(*given, "cpu", resources.cpu));
  KVIST_TRY_VOID(read_quantity(*given, "memory", resources.memory));
  return given->finish();
}

void write_resources(YamlWriter& out, const char* key, const ContainerResourcesSpec& resources) {
  if (resources == ContainerResourcesSpec{}) return;
  out.begin_map(key);
  if (!resources.cpu.empty()) out.field("cpu", resources.cpu);
  if (!resources.memory.empty()) out.field("memory", resources.memory);
  out.end_map();
}

}  // namespace

Result<KubernetesDeploymentSpec> read_kubernetes_deployment(const YamlNode& node, const std::string& base_directory) {
  KubernetesDeploymentSpec kubernetes;
  KVIST_TRY_VOID(node.require("image"));
  KVIST_TRY_VOID(read_field(node, "image", kubernetes.image));
  KVIST_TRY_VOID(read_name(node, "namespace", kubernetes.name_space));
  KVIST_TRY_VOID(read_path(node, "kubeconfig", base_directory, kubernetes.kubeconfig));
  KVIST_TRY_VOID(read_name(node, "field_manager", kubernetes.field_manager));
  KVIST_TRY_VOID(read_field(node, "force", kubernetes.force));
  KVIST_TRY_VOID(read_field(node, "keep", kubernetes.keep));
  KVIST_TRY_VOID(read_field(node, "ready_timeout", kubernetes.ready_timeout, std::chrono::seconds(1)));
  KVIST_TRY_VOID(read_name(node, "models_claim", kubernetes.models_claim));
  KVIST_TRY_VOID(read_resources(node, "worker", kubernetes.worker));
  KVIST_TRY_VOID(read_resources(node, "gateway", kubernetes.gateway));
  KVIST_TRY_VOID(node.finish());
  return kubernetes;
}

void write_kubernetes_deployment(YamlWriter& out, const KubernetesDeploymentSpec& kubernetes) {
  out.begin_map("kubernetes").field("image", kubernetes.image);
  if (!kubernetes.name_space.empty()) out.field("namespace", kubernetes.name_space);
  if (!kubernetes.kubeconfig.empty()) out.field("kubeconfig", kubernetes.kubeconfig);
  out.field("field_manager", kubernetes.field_manager).field("force", kubernetes.force).field("keep", kubernetes.keep);
  out.field("ready_timeout", kubernetes.ready_timeout);
  if (!kubernetes.models_claim.empty()) out.field("models_claim", kubernetes.models_claim);
  write_resources(out, "worker", kubernetes.worker);
  write_resources(out, "gateway", kubernetes.gateway);
  out.end_map();
}

}  // namespace kvist::spec

#include "kvist/spec/kubernetes_source_yaml.h"

#include <utility>

#include "kvist/spec/fields.h"

namespace kvist::spec {
namespace {

/// A port's number, or the name that the Service gives it.
Result<void> read_port(const YamlNode& node, WorkerGroupSpec& group, KubernetesSourceSpec& source) {
  const auto port = node.get("port");
  if (!port) return {};
  if (const auto number = port->as_int(1, 65'535)) {
    group.port = static_cast<std::uint16_t>(*number);
    return {};
  }
  KVIST_TRY(source.port_name, port->as_string());
  const bool is_number = source.port_name.find_first_not_of("0123456789") == std::string::npos;
  if (is_number || !is_name(source.port_name))
    return std::unexpected(port->error("expected a port's number or its name in the Service"));
  return {};
}

}  // namespace

Result<void> read_kubernetes_source(const YamlNode& node, const std::string& base_directory, WorkerGroupSpec& group) {
  KubernetesSourceSpec source;
  KVIST_TRY_VOID(read_name(node, "service", source.service));
  KVIST_TRY_VOID(read_name(node, "inference_pool", source.inference_pool));
  KVIST_TRY_VOID(read_name(node, "namespace", source.name_space));
  KVIST_TRY_VOID(read_port(node, group, source));
  KVIST_TRY_VOID(read_field(node, "pods", source.pods));
  KVIST_TRY_VOID(read_name(node, "role", source.role));
  KVIST_TRY_VOID(read_path(node, "kubeconfig", base_directory, source.kubeconfig));
  KVIST_TRY_VOID(read_field(node, "https", group.https));
  KVIST_TRY_VOID(node.finish());
  if (source.service.empty() == source.inference_pool.empty())
    return std::unexpected(node.error("expected either service or inference_pool, whose endpoints become workers"));
  if (!source.inference_pool.empty() && !source.pods.empty())
    return std::unexpected(node.error("pods: the pool's own selector says which ones are followed; leave it out"));
  if (!source.inference_pool.empty() && !source.port_name.empty())
    return std::unexpected(node.error("port: a pool's ports have no names; give a number, or leave it out"));
  if (!source.role.empty() && source.pods.empty() && source.inference_pool.empty())
    return std::unexpected(node.error("role without pods: a role is a label of pods, so say which ones to follow"));
  group.kubernetes = std::move(source);
  return {};
}

void write_kubernetes_source(YamlWriter& out, const WorkerGroupSpec& group) {
  const KubernetesSourceSpec& source = *group.kubernetes;
  out.begin_map("kubernetes");
  if (!source.service.empty()) out.field("service", source.service);
  if (!source.inference_pool.empty()) out.field("inference_pool", source.inference_pool);
  if (!source.name_space.empty()) out.field("namespace", source.name_space);
  if (!source.port_name.empty()) out.field("port", source.port_name);
  if (group.port != 0) out.field("port", group.port);
  if (!source.pods.empty()) out.field("pods", source.pods);
  if (!source.role.empty()) out.field("role", source.role);
  if (!source.kubeconfig.empty()) out.field("kubeconfig", source.kubeconfig);
  if (group.https) out.field("https", true);
  out.end_map();
}

}  // namespace kvist::spec

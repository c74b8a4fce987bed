// Private to spec: the mapping `kubernetes` of a deployment, read and written.
#pragma once

#include <string>

#include "kvist/base/error.h"
#include "kvist/base/yaml.h"
#include "kvist/spec/kubernetes_deployment_spec.h"
#include "kvist/spec/yaml_writer.h"

namespace kvist::spec {

[[nodiscard]] Result<KubernetesDeploymentSpec> read_kubernetes_deployment(const YamlNode& node,
                                                                          const std::string& base_directory);
void write_kubernetes_deployment(YamlWriter& out, const KubernetesDeploymentSpec& kubernetes);

}  // namespace kvist::spec

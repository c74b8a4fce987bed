// Private to spec: the mapping `kubernetes` of a group of workers, read and written.
#pragma once

#include <string>

#include "kvist/base/error.h"
#include "kvist/base/yaml.h"
#include "kvist/spec/deployment.h"
#include "kvist/spec/yaml_writer.h"

namespace kvist::spec {

/// Reads it into `group`, whose other fields are read by the caller.
[[nodiscard]] Result<void> read_kubernetes_source(const YamlNode& node, const std::string& base_directory,
                                                  WorkerGroupSpec& group);
/// Requires: the group has one.
void write_kubernetes_source(YamlWriter& out, const WorkerGroupSpec& group);

}  // namespace kvist::spec

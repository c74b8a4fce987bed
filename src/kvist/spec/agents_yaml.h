// Private to spec: the agents of a sweep, read and written.
#pragma once

#include <string>

#include "kvist/base/error.h"
#include "kvist/base/yaml.h"
#include "kvist/spec/agents_spec.h"
#include "kvist/spec/yaml_writer.h"

namespace kvist::spec {

/// `agents`. Paths are relative to `base_directory`.
[[nodiscard]] Result<AgentsSpec> read_agents(const YamlNode& node, const std::string& base_directory);
/// Nothing without agents.
void write_agents(YamlWriter& out, const AgentsSpec& agents);

}  // namespace kvist::spec

// Private to spec: parts that several readers share.
#pragma once

#include <string_view>

#include "kvist/base/error.h"
#include "kvist/base/yaml.h"
#include "kvist/spec/deployment.h"
#include "kvist/spec/yaml_writer.h"

namespace kvist::spec {

[[nodiscard]] Result<void> read_endpoint(const YamlNode& map, std::string_view key, Endpoint& endpoint);
void write_endpoint(YamlWriter& out, std::string_view key, const Endpoint& endpoint);

/// All fields of a worker over the values that are there already.
[[nodiscard]] Result<void> read_worker_fields(const YamlNode& node, WorkerSpec& worker);
[[nodiscard]] Result<void> read_routing_mode(const YamlNode& node, RoutingMode& mode);

}  // namespace kvist::spec

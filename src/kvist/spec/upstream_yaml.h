// Private to spec: the workers of a model in the gateway's settings, read and written.
#pragma once

#include <cstddef>
#include <string>

#include "kvist/base/error.h"
#include "kvist/base/yaml.h"
#include "kvist/spec/deployment.h"
#include "kvist/spec/yaml_writer.h"

namespace kvist::spec {

/// Reads what a model's mapping says of its workers: `workers`, `max_workers`, `worker_tls` and `worker_api_key_file`.
/// A worker without a name gets one with its number, from `before` on.
[[nodiscard]] Result<void> read_worker_fleet(const YamlNode& node, const std::string& base_directory,
                                             std::size_t before, ServedModelSpec& model);
/// Writes `workers`, if there are any.
void write_upstreams(YamlWriter& out, const ServedModelSpec& model);

}  // namespace kvist::spec

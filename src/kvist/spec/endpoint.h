// Private to spec: parts that several readers share.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "kvist/base/error.h"
#include "kvist/base/yaml.h"
#include "kvist/spec/deployment.h"
#include "kvist/spec/yaml_writer.h"

namespace kvist::spec {

[[nodiscard]] Result<void> read_endpoint(const YamlNode& map, std::string_view key, Endpoint& endpoint);
void write_endpoint(YamlWriter& out, std::string_view key, const Endpoint& endpoint);

/// All fields of a worker over the values that are there already.
[[nodiscard]] Result<void> read_worker_fields(const YamlNode& node, const std::string& base_directory,
                                              WorkerSpec& worker);
/// The parts of a worker that describe its GPU and its speculation (worker_model.cc).
[[nodiscard]] Result<void> read_profile(const YamlNode& worker, const std::string& base_directory,
                                        std::optional<ProfileSpec>& profile);
void write_profile(YamlWriter& out, const ProfileSpec& profile);
[[nodiscard]] Result<void> read_speculation(const YamlNode& worker, SpeculationSpec& speculation);
void write_speculation(YamlWriter& out, const SpeculationSpec& speculation);
[[nodiscard]] Result<void> read_routing_mode(const YamlNode& node, RoutingMode& mode);

}  // namespace kvist::spec

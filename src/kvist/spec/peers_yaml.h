// Private to spec: `peers` of the gateway, read and written.
#pragma once

#include <string>

#include "kvist/base/error.h"
#include "kvist/base/yaml.h"
#include "kvist/spec/peers_spec.h"
#include "kvist/spec/yaml_writer.h"

namespace kvist::spec {

[[nodiscard]] Result<void> read_peers(const YamlNode& gateway, const std::string& base_directory, PeersSpec& peers);
/// Writes nothing for a gateway that is alone.
void write_peers(YamlWriter& out, const PeersSpec& peers);

}  // namespace kvist::spec

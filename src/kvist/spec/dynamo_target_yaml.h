// Private to spec: the mapping `dynamo` of a sweep's target, read and written.
#pragma once

#include <string>

#include "kvist/base/error.h"
#include "kvist/base/yaml.h"
#include "kvist/spec/dynamo_target_spec.h"
#include "kvist/spec/yaml_writer.h"

namespace kvist::spec {

[[nodiscard]] Result<DynamoTargetSpec> read_dynamo_target(const YamlNode& node, const std::string& base_directory);
void write_dynamo_target(YamlWriter& out, const DynamoTargetSpec& dynamo);

}  // namespace kvist::spec

// Private to spec: arms, their comparison and the target, read and written.
#pragma once

#include <string>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/yaml.h"
#include "kvist/spec/arm.h"
#include "kvist/spec/comparison_spec.h"
#include "kvist/spec/target_spec.h"
#include "kvist/spec/yaml_writer.h"

namespace kvist::spec {

/// `comparison`; the usual proof of caches is `usual`.
[[nodiscard]] Result<ComparisonSpec> read_comparison(const YamlNode& node, CacheProof usual);
void write_comparison(YamlWriter& out, const ComparisonSpec& comparison);

/// `target`. The path of a key is relative to `base_directory`.
[[nodiscard]] Result<TargetSpec> read_target(const YamlNode& node, const std::string& base_directory);
void write_target(YamlWriter& out, const TargetSpec& target);

/// `arms`: names that differ.
[[nodiscard]] Result<std::vector<ArmSpec>> read_arms(const YamlNode& node);
void write_arms(YamlWriter& out, const std::vector<ArmSpec>& arms);

}  // namespace kvist::spec

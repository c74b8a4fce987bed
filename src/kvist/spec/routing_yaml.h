// The gateway's settings about mode kv, read and written.
#pragma once

#include "kvist/base/error.h"
#include "kvist/base/yaml.h"
#include "kvist/spec/routing_spec.h"
#include "kvist/spec/yaml_writer.h"

namespace kvist::spec {

/// Reads `tier_weights` of the gateway's mapping. What is missing keeps its value, as in the next.
[[nodiscard]] Result<void> read_tier_weights(const YamlNode& gateway, TierWeightsSpec& weights);
/// Reads `warm_up`.
[[nodiscard]] Result<void> read_warm_up(const YamlNode& gateway, WarmUpSpec& warm_up);
/// Reads `session_affinity`: a form, or a mapping with `form` and the rest.
[[nodiscard]] Result<void> read_session_affinity(const YamlNode& gateway, SessionAffinitySpec& affinity);
/// Reads `objective`.
[[nodiscard]] Result<void> read_objective(const YamlNode& gateway, ObjectiveSpec& objective);
/// Writes the settings that are not the defaults.
void write_tier_weights(YamlWriter& out, const TierWeightsSpec& weights);
void write_warm_up(YamlWriter& out, const WarmUpSpec& warm_up);
void write_session_affinity(YamlWriter& out, const SessionAffinitySpec& affinity);
void write_objective(YamlWriter& out, const ObjectiveSpec& objective);

}  // namespace kvist::spec

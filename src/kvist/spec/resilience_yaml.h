// The gateway's settings about workers that fail or are too few, read and written.
#pragma once

#include "kvist/base/error.h"
#include "kvist/base/yaml.h"
#include "kvist/spec/resilience_spec.h"
#include "kvist/spec/scaling_spec.h"
#include "kvist/spec/yaml_writer.h"

namespace kvist::spec {

/// Reads `admission` of the gateway's mapping. What is missing keeps its value, as in the next.
[[nodiscard]] Result<void> read_admission(const YamlNode& gateway, AdmissionSpec& admission);
/// Reads `hold`.
[[nodiscard]] Result<void> read_hold(const YamlNode& gateway, HoldSpec& hold);
/// Reads `scaling`.
[[nodiscard]] Result<void> read_scaling(const YamlNode& gateway, ScalingSpec& scaling);
/// Reads `retry_budget` of the gateway's mapping. What is missing keeps its value, as in the next.
[[nodiscard]] Result<void> read_retry_budget(const YamlNode& gateway, RetryBudgetSpec& budget);
/// Reads `ejection`.
[[nodiscard]] Result<void> read_ejection(const YamlNode& gateway, EjectionSpec& ejection);
/// Reads `migration`.
[[nodiscard]] Result<void> read_migration(const YamlNode& gateway, MigrationSpec& migration);
/// Writes the settings that are not the defaults.
void write_admission(YamlWriter& out, const AdmissionSpec& admission);
void write_hold(YamlWriter& out, const HoldSpec& hold);
void write_scaling(YamlWriter& out, const ScalingSpec& scaling);
void write_retry_budget(YamlWriter& out, const RetryBudgetSpec& budget);
void write_ejection(YamlWriter& out, const EjectionSpec& ejection);
void write_migration(YamlWriter& out, const MigrationSpec& migration);

}  // namespace kvist::spec

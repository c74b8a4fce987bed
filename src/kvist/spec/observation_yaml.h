// Private to spec: settings of logs and traces, read and written.
#pragma once

#include <string>

#include "kvist/base/error.h"
#include "kvist/base/yaml.h"
#include "kvist/spec/observation_spec.h"
#include "kvist/spec/yaml_writer.h"

namespace kvist::spec {

/// Reads `log` of a service's mapping. What is missing keeps its value. The next two likewise.
[[nodiscard]] Result<void> read_log(const YamlNode& service, LogSpec& log);
/// Writes the settings that are not the defaults.
void write_log(YamlWriter& out, const LogSpec& log);

/// `access_log`: a file, "stderr" or "stdout".
[[nodiscard]] Result<void> read_access_log(const YamlNode& service, const std::string& base_directory,
                                           AccessLogSpec& log);
void write_access_log(YamlWriter& out, const AccessLogSpec& log);

[[nodiscard]] Result<void> read_otlp(const YamlNode& service, const std::string& base_directory, OtlpSpec& otlp);
void write_otlp(YamlWriter& out, const OtlpSpec& otlp);

}  // namespace kvist::spec

// Private to spec: settings of how a service is exposed, read and written.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "kvist/base/error.h"
#include "kvist/base/yaml.h"
#include "kvist/spec/exposure_spec.h"
#include "kvist/spec/yaml_writer.h"

namespace kvist::spec {

/// Reads `cors` of a service's mapping. What is missing keeps its value.
[[nodiscard]] Result<void> read_cors(const YamlNode& service, CorsSpec& cors);
/// Writes the settings that are not the defaults.
void write_cors(YamlWriter& out, const CorsSpec& cors);

/// Reads `api_keys`: a file, or a mapping with `file` and `admin_file`.
[[nodiscard]] Result<void> read_api_keys(const YamlNode& service, const std::string& base_directory, ApiKeysSpec& keys);
void write_api_keys(YamlWriter& out, const ApiKeysSpec& keys);

/// Reads the mapping under `key` (`tls`, `admin_tls`) of a listener.
[[nodiscard]] Result<void> read_server_tls(const YamlNode& service, std::string_view key,
                                           const std::string& base_directory, ServerTlsSpec& tls);
void write_server_tls(YamlWriter& out, std::string_view key, const ServerTlsSpec& tls);
/// Reads the mapping under `key` (`tls` of a worker, `worker_tls`) towards a server.
[[nodiscard]] Result<void> read_client_tls(const YamlNode& map, std::string_view key, const std::string& base_directory,
                                           ClientTlsSpec& tls);
void write_client_tls(YamlWriter& out, std::string_view key, const ClientTlsSpec& tls);

/// Reads `http_limits`.
[[nodiscard]] Result<void> read_http_limits(const YamlNode& service, HttpLimitsSpec& limits);
void write_http_limits(YamlWriter& out, const HttpLimitsSpec& limits);

/// Reads `max_body`: the most bytes of a request's body.
[[nodiscard]] Result<void> read_max_body(const YamlNode& service, std::uint64_t& bytes);

/// The listener for administration. Without a port it gets `usual_port`; it must not be `http`'s.
[[nodiscard]] Result<void> read_admin(const YamlNode& service, const Endpoint& http, std::uint16_t usual_port,
                                      Endpoint& admin);

}  // namespace kvist::spec

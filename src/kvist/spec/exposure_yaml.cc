#include "kvist/spec/exposure_yaml.h"

#include <fmt/format.h>

#include <array>

#include "kvist/spec/endpoint.h"
#include "kvist/spec/fields.h"

namespace kvist::spec {
namespace {

constexpr auto kClientCertificateWords =
    std::to_array<Word<ClientCertificates>>({{"none", ClientCertificates::kNone},
                                             {"optional", ClientCertificates::kOptional},
                                             {"required", ClientCertificates::kRequired}});

/// "*", or scheme, host and, unless it is the scheme's own, the port, in small letters: as browsers write it.
bool is_origin(std::string_view text) {
  if (text == "*") return true;
  const std::size_t slashes = text.find("://");
  const std::string_view scheme = text.substr(0, slashes);
  if (slashes == std::string_view::npos || slashes == 0) return false;
  const std::string_view authority = text.substr(slashes + 3);
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyz0123456789.-_:[]+";
  return !authority.empty() && authority.find_first_not_of(kPlain) == std::string_view::npos &&
         scheme.find_first_not_of(kPlain) == std::string_view::npos;
}

}  // namespace

Result<void> read_cors(const YamlNode& service, CorsSpec& cors) {
  const auto node = service.get("cors");
  if (!node) return {};
  constexpr std::size_t kMost = 64;
  if (const auto list = node->get("origins")) {
    KVIST_TRY(const auto elements, list->elements());
    cors.origins.clear();
    for (const YamlNode& element : elements) {
      KVIST_TRY(std::string origin, element.as_string());
      if (!is_origin(origin)) {
        return std::unexpected(element.error(fmt::format(
            "expected an origin as browsers write it, like https://chat.example, or *; got \"{}\"", origin)));
      }
      cors.origins.push_back(std::move(origin));
    }
    if (cors.origins.size() > kMost) return std::unexpected(list->error(fmt::format("more than {} origins", kMost)));
  }
  return node->finish();
}

void write_cors(YamlWriter& out, const CorsSpec& cors) {
  if (cors.origins.empty()) return;
  std::string list;
  for (const std::string& origin : cors.origins) list += (list.empty() ? "\"" : ", \"") + origin + "\"";
  out.begin_map("cors").raw("origins", "[" + list + "]").end_map();
}

Result<void> read_api_keys(const YamlNode& service, const std::string& base_directory, ApiKeysSpec& keys) {
  const auto node = service.get("api_keys");
  if (!node) return {};
  if (!node->is_map()) return read_path(service, "api_keys", base_directory, keys.file);
  KVIST_TRY_VOID(read_path(*node, "file", base_directory, keys.file));
  KVIST_TRY_VOID(read_path(*node, "admin_file", base_directory, keys.admin_file));
  KVIST_TRY_VOID(node->finish());
  if (!keys.file.empty() || !keys.admin_file.empty()) return {};
  return std::unexpected(node->error("has neither file nor admin_file: no request would need a key"));
}

void write_api_keys(YamlWriter& out, const ApiKeysSpec& keys) {
  if (keys == ApiKeysSpec{}) return;
  out.begin_map("api_keys");
  if (!keys.file.empty()) out.field("file", keys.file);
  if (!keys.admin_file.empty()) out.field("admin_file", keys.admin_file);
  out.end_map();
}

Result<void> read_server_tls(const YamlNode& service, std::string_view key, const std::string& base_directory,
                             ServerTlsSpec& tls) {
  const auto node = service.get(key);
  if (!node) return {};
  KVIST_TRY_VOID(read_path(*node, "certificate", base_directory, tls.certificate));
  KVIST_TRY_VOID(read_path(*node, "key", base_directory, tls.key));
  KVIST_TRY_VOID(read_path(*node, "client_ca", base_directory, tls.client_ca));
  if (!tls.client_ca.empty()) tls.client_certificates = ClientCertificates::kRequired;
  KVIST_TRY_VOID(read_word(*node, "client_certificates", kClientCertificateWords, tls.client_certificates));
  KVIST_TRY_VOID(node->finish());
  if (tls.certificate.empty() || tls.key.empty())
    return std::unexpected(node->error("needs both certificate and key, which are PEM files"));
  if (tls.client_ca.empty() != (tls.client_certificates == ClientCertificates::kNone)) {
    return std::unexpected(node->error(
        "client_ca names the authorities of client_certificates (optional or required): both are needed, or neither"));
  }
  return {};
}

void write_server_tls(YamlWriter& out, std::string_view key, const ServerTlsSpec& tls) {
  if (tls.certificate.empty()) return;
  out.begin_map(key).field("certificate", tls.certificate).field("key", tls.key);
  if (!tls.client_ca.empty()) {
    out.field("client_ca", tls.client_ca);
    out.field("client_certificates", word_of(kClientCertificateWords, tls.client_certificates));
  }
  out.end_map();
}

Result<void> read_client_tls(const YamlNode& map, std::string_view key, const std::string& base_directory,
                             ClientTlsSpec& tls) {
  const auto node = map.get(key);
  if (!node) return {};
  KVIST_TRY_VOID(read_path(*node, "ca", base_directory, tls.ca));
  KVIST_TRY_VOID(read_field(*node, "server_name", tls.server_name));
  KVIST_TRY_VOID(read_path(*node, "certificate", base_directory, tls.certificate));
  KVIST_TRY_VOID(read_path(*node, "key", base_directory, tls.key));
  KVIST_TRY_VOID(node->finish());
  if (tls.certificate.empty() != tls.key.empty())
    return std::unexpected(node->error("certificate and key, which are PEM files, go together"));
  return {};
}

void write_client_tls(YamlWriter& out, std::string_view key, const ClientTlsSpec& tls) {
  if (tls == ClientTlsSpec{}) return;
  out.begin_map(key);
  if (!tls.ca.empty()) out.field("ca", tls.ca);
  if (!tls.server_name.empty()) out.field("server_name", tls.server_name);
  if (!tls.certificate.empty()) out.field("certificate", tls.certificate).field("key", tls.key);
  out.end_map();
}

Result<void> read_http_limits(const YamlNode& service, HttpLimitsSpec& limits) {
  const auto node = service.get("http_limits");
  if (!node) return {};
  constexpr Duration kLeast = std::chrono::milliseconds(10);
  constexpr std::uint64_t kLeastHead = 1'024;
  constexpr std::uint64_t kMostHead = 1ULL << 20;
  KVIST_TRY_VOID(read_field(*node, "connections", limits.connections, 1, 1'000'000));
  KVIST_TRY_VOID(read_field(*node, "connections_per_address", limits.connections_per_address, 0, 1'000'000));
  if (const auto bytes = node->get("head")) {
    KVIST_TRY(const std::uint64_t size, bytes->as_bytes());
    if (size < kLeastHead || size > kMostHead) return std::unexpected(bytes->error("must be from 1 KiB to 1 MiB"));
    limits.head_bytes = static_cast<std::uint32_t>(size);
  }
  KVIST_TRY_VOID(read_field(*node, "head_timeout", limits.head_timeout, kLeast));
  KVIST_TRY_VOID(read_field(*node, "body_timeout", limits.body_timeout, kLeast));
  KVIST_TRY_VOID(read_field(*node, "idle_timeout", limits.idle_timeout, kLeast));
  if (const auto rate = node->get("least_read_rate")) {
    KVIST_TRY(limits.least_read_rate, rate->as_bytes());
    if (limits.least_read_rate > kMostHead) return std::unexpected(rate->error("must be at most 1 MiB (a second)"));
  }
  return node->finish();
}

void write_http_limits(YamlWriter& out, const HttpLimitsSpec& limits) {
  if (limits == HttpLimitsSpec{}) return;
  out.begin_map("http_limits").field("connections", limits.connections);
  out.field("connections_per_address", limits.connections_per_address);
  out.raw("head", fmt::format("{} B", limits.head_bytes)).field("head_timeout", limits.head_timeout);
  out.field("body_timeout", limits.body_timeout).field("idle_timeout", limits.idle_timeout);
  out.raw("least_read_rate", fmt::format("{} B", limits.least_read_rate)).end_map();
}

Result<void> read_max_body(const YamlNode& service, std::uint64_t& bytes) {
  const auto node = service.get("max_body");
  if (!node) return {};
  KVIST_TRY(bytes, node->as_bytes());
  if (bytes < 1'024) return std::unexpected(node->error("must be at least 1 KiB"));
  return {};
}

Result<void> read_admin(const YamlNode& service, const Endpoint& http, std::uint16_t usual_port, Endpoint& admin) {
  KVIST_TRY_VOID(read_endpoint(service, "admin", admin));
  const auto node = service.get("admin");
  const bool has_port = node && node->get("port");
  if (!has_port) admin.port = usual_port;
  if (admin.port == 0 || admin.port != http.port) return {};
  return std::unexpected(
      (node ? *node : service)
          .error(fmt::format("port {} is that of http: administration needs a listener of its own", admin.port)));
}

}  // namespace kvist::spec

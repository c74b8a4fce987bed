#include "kvist/cli/tls_arguments.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <array>
#include <utility>

#include "kvist/net/tls.h"

namespace kvist::cli {

void add_tls_options(CLI::App& command, TlsArguments& tls, const std::string& server) {
  command.add_option("--ca", tls.ca, "PEM file of the authorities to trust, for https; without it, the system's");
  command.add_option("--server-name", tls.server_name,
                     fmt::format("that the certificate of {} has to be for, if not the URL's host", server));
  auto* certificate = command.add_option("--certificate", tls.certificate, "PEM file of an own certificate");
  certificate->needs(command.add_option("--key", tls.key, "PEM file of its key")->needs(certificate));
  command.add_flag("--insecure", tls.insecure, fmt::format("take any certificate of {}", server));
}

Result<void> check_tls(const TlsArguments& tls, std::string_view option, std::string_view url) {
  const std::array given = {std::pair{!tls.ca.empty(), "--ca"}, std::pair{!tls.server_name.empty(), "--server-name"},
                            std::pair{!tls.certificate.empty(), "--certificate"}, std::pair{!tls.key.empty(), "--key"},
                            std::pair{tls.insecure, "--insecure"}};
  for (const auto& [is_given, name] : given) {
    if (!is_given || url.starts_with("https://")) continue;
    return fail(ErrorCode::kInvalidArgument, fmt::format("{}: is for a {} with https://", name, option));
  }
  if (!tls.insecure || tls.ca.empty()) return {};
  return fail(ErrorCode::kInvalidArgument, "--ca: with --insecure any certificate is taken: give one of both");
}

Result<std::shared_ptr<net::TlsClient>> load_tls(const TlsArguments& tls, std::string_view url) {
  if (!url.starts_with("https://")) return nullptr;
  return net::TlsClient::load({.ca = tls.ca,
                               .server_name = tls.server_name,
                               .certificate = tls.certificate,
                               .key = tls.key,
                               .verify = !tls.insecure});
}

void add_listen_options(CLI::App& command, ListenArguments& listen) {
  auto* certificate = command.add_option("--listen-certificate", listen.certificate,
                                         "PEM file of this command's own certificate: it listens with TLS");
  certificate->needs(command.add_option("--listen-key", listen.key, "PEM file of its key")->needs(certificate));
}

Result<std::shared_ptr<net::TlsServer>> load_listener(const ListenArguments& listen) {
  if (listen.certificate.empty()) return nullptr;
  return net::TlsServer::load({.certificate = listen.certificate, .key = listen.key});
}

}  // namespace kvist::cli

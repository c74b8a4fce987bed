// How a command speaks to an https server, and how it is one.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "kvist/base/error.h"

namespace CLI {
class App;
}

namespace kvist::net {
class TlsClient;
class TlsServer;
}  // namespace kvist::net

namespace kvist::cli {

struct TlsArguments {
  std::string ca = {};           ///< PEM file; empty: the system's authorities
  std::string server_name = {};  ///< that the certificate has to be for; empty: the URL's host
  std::string certificate = {};  ///< PEM file of an own one; empty: none is shown
  std::string key = {};          ///< PEM file
  bool insecure = false;         ///< the server's certificate is not verified
};

/// Adds --ca, --server-name, --certificate, --key and --insecure to the command. `server` is what messages call the
/// other side: "the target".
void add_tls_options(CLI::App& command, TlsArguments& tls, const std::string& server);

/// Refuses options that contradict each other, or that are for https where `url`, the value of `option`, is http.
[[nodiscard]] Result<void> check_tls(const TlsArguments& tls, std::string_view option, std::string_view url);

/// Reads the files. Null for an http URL.
[[nodiscard]] Result<std::shared_ptr<net::TlsClient>> load_tls(const TlsArguments& tls, std::string_view url);

/// How a command's own listener speaks to browsers and programs.
struct ListenArguments {
  std::string certificate = {};  ///< PEM file; empty: plain HTTP
  std::string key = {};          ///< PEM file
};

/// Adds --listen-certificate and --listen-key, which need each other.
void add_listen_options(CLI::App& command, ListenArguments& listen);

/// Reads the files. Null if there are none.
[[nodiscard]] Result<std::shared_ptr<net::TlsServer>> load_listener(const ListenArguments& listen);

}  // namespace kvist::cli

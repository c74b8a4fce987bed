// How a service is exposed: where it listens, to whom, and within which bounds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kvist/base/time.h"

namespace kvist::spec {

/// Where a service listens. Port 0 lets the operating system choose; the service prints the chosen port.
struct Endpoint {
  std::string host = "127.0.0.1";
  std::uint16_t port = 0;

  bool operator==(const Endpoint&) const = default;
};

/// Which web pages may use the API from a browser. None unless they are listed.
struct CorsSpec {
  std::vector<std::string> origins = {};  ///< "https://chat.example"; "*": all

  bool operator==(const CorsSpec&) const = default;
};

/// The files of the keys that requests must have.
struct ApiKeysSpec {
  std::string file = {};        ///< of clients' keys; empty: requests need none
  std::string admin_file = {};  ///< of the keys for administration; empty: it needs none

  bool operator==(const ApiKeysSpec&) const = default;
};

/// The bounds on what clients may take of a service.
struct HttpLimitsSpec {
  std::uint32_t connections = 16'384;         ///< of all clients
  std::uint32_t connections_per_address = 0;  ///< of one IP address; 0: no bound
  std::uint32_t head_bytes = 64U << 10;
  Duration head_timeout = std::chrono::seconds(10);  ///< from a request's first byte to the end of its head
  Duration body_timeout = std::chrono::seconds(75);  ///< then to the end of its body
  Duration idle_timeout = std::chrono::seconds(75);  ///< between requests
  /// What a client has to read per second, measured over idle_timeout, while there is more for it; 0: as long as it
  /// reads anything at all.
  std::uint64_t least_read_rate = 256;

  bool operator==(const HttpLimitsSpec&) const = default;
};

/// Which clients have to prove with a certificate who they are.
enum class ClientCertificates {
  kNone,
  kOptional,  ///< one that is shown has to be good
  kRequired,
};

/// TLS of a listener.
struct ServerTlsSpec {
  std::string certificate = {};  ///< PEM file, with the chain up to the root; empty: no TLS
  std::string key = {};          ///< PEM file
  std::string client_ca = {};    ///< PEM file of the authorities that vouch for clients
  ClientCertificates client_certificates = ClientCertificates::kNone;

  bool operator==(const ServerTlsSpec&) const = default;
};

/// TLS towards a server.
struct ClientTlsSpec {
  std::string ca = {};           ///< PEM file of the authorities to trust; empty: the system's
  std::string server_name = {};  ///< that its certificate has to be for; empty: the URL's host
  std::string certificate = {};  ///< PEM file of an own certificate; empty: none is shown
  std::string key = {};          ///< PEM file

  bool operator==(const ClientTlsSpec&) const = default;
};

}  // namespace kvist::spec

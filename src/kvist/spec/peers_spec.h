// How a gateway knows of the others before the same workers.
#pragma once

#include <string>

#include "kvist/base/time.h"
#include "kvist/spec/exposure_spec.h"

namespace kvist::spec {

/// Gateways of one group tell each other their load over NATS, and share what an administrator decides.
struct PeersSpec {
  std::string nats = {};        ///< "nats://host:port" or "tls://host:port", several with commas; empty: it is alone
  std::string group = "kvist";  ///< the gateways that belong together
  std::string name = {};        ///< no two of a group have the same; empty: the host's name and the port
  std::string credentials_file = {};  ///< a .creds file of NATS; empty: none, as the next
  std::string token_file = {};
  std::string user = {};
  std::string password_file = {};
  ClientTlsSpec tls = {};
  Duration patience = std::chrono::seconds(3);  ///< a gateway that is silent for so long is gone

  [[nodiscard]] bool is_given() const { return !nats.empty(); }
  bool operator==(const PeersSpec&) const = default;
};

}  // namespace kvist::spec

// What all models of a gateway share.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kvist/gateway/dialect_door.h"
#include "kvist/gateway/io_loop.h"
#include "kvist/gateway/key_gate.h"
#include "kvist/gateway/model_door.h"
#include "kvist/gateway/peer_link.h"
#include "kvist/gateway/request_reporter.h"
#include "kvist/net/event_loop.h"
#include "kvist/net/http_client.h"
#include "kvist/net/tls.h"
#include "kvist/spec/deployment.h"

namespace kvist::gateway {

struct ModelParts;
class SharedDecisions;

/// Owned by the service; outlives the models. Threads: the loop's.
struct SharedParts {
  /// `servers`: see worker_settings(). `reporting` is told of requests; null: no one is. Requires: gateway_spec.threads
  /// is not 0; the loop outlives this object.
  SharedParts(net::EventLoop& loop, spec::GatewaySpec gateway_spec, std::map<std::string, net::ServerSettings> servers,
              std::unique_ptr<RequestReporter> reporting, std::unique_ptr<PeerLink> link);

  /// The options with which this loop's client and the others' begin: they know the workers of the first models.
  [[nodiscard]] static net::HttpClientOptions client_options(const spec::GatewaySpec& gateway,
                                                             std::map<std::string, net::ServerSettings> servers);

  /// Whether administration is only for those who have a key or a client certificate.
  [[nodiscard]] bool asks_who_administers() const {
    return admin_keys != nullptr || spec.admin_tls.client_certificates == spec::ClientCertificates::kRequired;
  }

  spec::GatewaySpec spec;  ///< its list of models may be out of date
  const double started_unix_s;
  std::shared_ptr<RoutingHome> home;          ///< this thread, as the other threads see it
  std::unique_ptr<KeyGate> keys;              ///< null: clients need none; set before the first request
  std::unique_ptr<KeyGate> admin_keys;        ///< null: administration needs none
  std::shared_ptr<net::TlsServer> tls;        ///< of the listener for clients; null: plain HTTP
  std::shared_ptr<net::TlsServer> admin_tls;  ///< of the one for administration
  std::unique_ptr<RequestReporter> reporter;  ///< null: no access log and no traces
  std::unique_ptr<PeerLink> peers;            ///< to the other gateways; null: there are none
  SharedDecisions* decisions = nullptr;  ///< tells them what an administrator decides; set before the first request
  const std::map<std::string, net::ServerSettings> servers;  ///< the workers of the first models, by URL
  net::HttpClient client;                                    ///< this loop's, as the next
  ModelDoor door;
  DialectDoor dialects;
  std::vector<ModelParts*> models = {};                ///< in the order in which they came
  std::vector<std::unique_ptr<IoLoop>> io_loops = {};  ///< of the other threads
};

/// Seeds request ids, so that they differ between loops, gateways and runs. Nothing else depends on it.
[[nodiscard]] std::uint64_t random_seed();

}  // namespace kvist::gateway

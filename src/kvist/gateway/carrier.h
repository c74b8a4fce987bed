// A proxy that asks which worker a request is to go to, and takes it there itself.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "kvist/base/time.h"
#include "kvist/net/http_client.h"
#include "kvist/net/http_types.h"

namespace kvist::gateway {

/// One request of such a proxy: an Envoy that asks by ext_proc. Endpoints are "address:port", as worker_endpoint() has
/// them. The request is then admitted, routed, watched and accounted for as the gateway's own are, but its bytes and
/// those of its answer do not pass through here: nothing of them is changed, and only the proxy can try another worker.
/// Threads: the loop's.
class Carrier {
 public:
  virtual ~Carrier() = default;

  /// Whether the request may go to this worker.
  [[nodiscard]] virtual bool may_use(std::string_view endpoint) const = 0;
  /// How many further workers the proxy can make use of if it does not reach the first.
  [[nodiscard]] virtual std::size_t fallbacks() const = 0;
  /// Sets a handler that is told, before the head of the answer, by which worker the request was served.
  virtual void on_served_by(std::function<void(std::string_view endpoint)> handler) = 0;
  /// Names the workers to the proxy, the chosen one first. The answer comes as that of net::HttpClient::start() does.
  /// If another worker than the first served the request, carry() is called again with that one alone, and the answer
  /// is given to the new call from its head on. Requires: `endpoints` is not empty.
  [[nodiscard]] virtual std::unique_ptr<net::HttpCall> carry(std::span<const std::string> endpoints,
                                                             std::shared_ptr<const net::HttpRequest> request,
                                                             Duration timeout, net::CallHandlers handlers) = 0;
};

}  // namespace kvist::gateway

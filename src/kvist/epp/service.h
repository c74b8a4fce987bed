// The endpoint picker as a service: it tells Envoy which worker a request is to go to.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "kvist/base/error.h"
#include "kvist/gateway/service.h"
#include "kvist/net/event_loop.h"
#include "kvist/spec/deployment.h"

namespace kvist::epp {

/// The gateway with another front: in place of its HTTP listener a gRPC server, at the same address and with the same
/// certificate. Everything behind it is the gateway's: its settings, its decisions, its administration. Requires: it is
/// destroyed before the loop, either from the loop's thread or while the loop does not run.
class Service {
 public:
  /// `file`: as for gateway::Service::create(). Errors: those too, and kInvalidArgument for a worker whose URL has no
  /// IP address.
  [[nodiscard]] static Result<std::unique_ptr<Service>> create(net::EventLoop& loop, const spec::GatewaySpec& spec,
                                                               gateway::SettingsFile file = {});
  virtual ~Service() = default;
  [[nodiscard]] virtual std::uint16_t port() const = 0;
  [[nodiscard]] virtual std::uint16_t admin_port() const = 0;
  /// As those of gateway::Service. While it shuts down, health checks say NOT_SERVING.
  virtual void reload() = 0;
  virtual void shut_down(std::function<void()> done = {}) = 0;
  virtual void end_now() = 0;
};

}  // namespace kvist::epp

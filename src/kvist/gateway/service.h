// The gateway as a service: OpenAI API in front, workers behind, routing in between.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "kvist/base/error.h"
#include "kvist/net/event_loop.h"
#include "kvist/spec/deployment.h"

namespace kvist::gateway {

/// Routes on the loop that it is made on, which does all where `threads` is 1; otherwise as many threads of its own take
/// requests and relay answers. KV events are received on threads of their own and applied on the loop's. Destroy it
/// before the loop, when the loop does not run, or from within it.
class Service {
 public:
  /// Listens, begins to watch the workers and to follow their KV events. The routing mode is that of `spec`, unless
  /// KVIST_ROUTER_MODE or DYN_ROUTER_MODE says otherwise.
  [[nodiscard]] static Result<std::unique_ptr<Service>> create(net::EventLoop& loop, spec::GatewaySpec spec);
  virtual ~Service() = default;
  [[nodiscard]] virtual std::uint16_t port() const = 0;
  /// Refuses new requests, lets those under way end for a short time, then breaks them off; calls `done` on the loop's
  /// thread when none is left: now the loop may be stopped. Loop thread only, once.
  virtual void shut_down(std::function<void()> done = {}) = 0;
};

}  // namespace kvist::gateway

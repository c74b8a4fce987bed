// The gateway as a service: OpenAI API in front, workers behind, routing in between.
#pragma once

#include <cstdint>
#include <memory>

#include "kvist/base/error.h"
#include "kvist/net/event_loop.h"
#include "kvist/spec/deployment.h"

namespace kvist::gateway {

/// Lives on one loop; KV events are received and decoded on threads of their own and applied on the loop's thread.
class Service {
 public:
  [[nodiscard]] static Result<std::unique_ptr<Service>> create(net::EventLoop& loop, spec::GatewaySpec spec);
  virtual ~Service() = default;
  [[nodiscard]] virtual std::uint16_t port() const = 0;
  /// Refuses new requests, lets streams end for a short time, then breaks them off.
  virtual void shut_down() = 0;
};

}  // namespace kvist::gateway

// What no event tells: workers that stand still, and trust in a worker's cache that came or went.
#pragma once

#include <vector>

#include "kvist/gateway/gateway_parts.h"
#include "kvist/net/event_loop.h"

namespace kvist::gateway {

/// Looks four times a second. Loop thread only.
class FleetWatch {
 public:
  /// Both outlive it.
  FleetWatch(net::EventLoop& loop, GatewayParts& parts);

  void start() { wait(); }

 private:
  void look();
  void look_for_stalls();
  void log_trust(WorkerId worker);
  void wait();

  GatewayParts* parts_;
  std::vector<bool> lost_;                  // by WorkerId, as the next
  std::vector<routing::CacheTrust> trust_;  // as it was logged last
  net::Timer timer_;
};

}  // namespace kvist::gateway

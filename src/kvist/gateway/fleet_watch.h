// Notices what no event reports: workers that stall or are silent, ends of ejections, and changes of the trust in a
// worker's cache. Logs changes of health, which come from health checks and from requests alike.
#pragma once

#include <cstdint>
#include <vector>

#include "kvist/gateway/health_log.h"
#include "kvist/gateway/model_parts.h"
#include "kvist/net/event_loop.h"

namespace kvist::gateway {

/// Checks all workers ten times a second. Threads: the loop's.
class FleetWatch {
 public:
  /// Requires: both outlive this object.
  FleetWatch(net::EventLoop& loop, ModelParts& parts);

  void start() { wait(); }

 private:
  void look();
  void look_for_stalls();
  void log_health(WorkerId worker, TimePoint now);
  void log_trust(WorkerId worker);
  void log_ejection(WorkerId worker);
  void wait();

  ModelParts* parts_;
  /// The ejections of a worker as last logged.
  struct Ejections {
    std::uint64_t number = 0;
    dispatch::Ejection state = dispatch::Ejection::kIn;
  };
  std::vector<std::uint64_t> occupants_;  // by WorkerId, as the next: those of the place so far
  std::vector<bool> lost_;
  std::vector<Ejections> ejections_;
  std::vector<HealthLog> health_;
  std::vector<routing::CacheTrust> trust_;  // as last logged
  net::Timer timer_;
};

}  // namespace kvist::gateway

// The workers behind the gateway: who they are and whether they can be given requests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/id.h"
#include "kvist/base/time.h"
#include "kvist/routing/worker_view.h"

namespace kvist::dispatch {

/// Health of a worker. Failures are health checks without a good answer and requests that broke on the wire.
enum class WorkerHealth : std::uint8_t {
  kHealthy,
  kSuspect,    ///< failed, but not often enough in a row to be sure: used only when no worker is healthy
  kUnhealthy,  ///< failed too often in a row, or never seen yet: not used
};
[[nodiscard]] std::string_view to_string(WorkerHealth health);

/// Health and availability of all workers, by WorkerId. Pure state machine; one thread.
///   any + success            -> healthy
///   healthy + failure        -> suspect
///   suspect + failure        -> unhealthy, once `failures_to_unhealthy` came in a row
/// Invariant: views()[w].available exactly for the healthy workers, or for the suspects while nobody is healthy.
class Fleet {
 public:
  struct Options {
    std::uint32_t failures_to_unhealthy = 3;
  };
  struct Worker {
    std::string name;
    WorkerHealth health = WorkerHealth::kUnhealthy;
    std::uint32_t failures_in_a_row = 0;
    std::uint64_t failures = 0;
    TimePoint since{};                             ///< when `health` began
    std::string last_problem = "not checked yet";  ///< of the last failure; empty while healthy
  };

  Fleet(std::vector<std::string> names, Options options);

  /// A health check went well. Returns whether the worker's health changed; the same below.
  bool on_success(WorkerId worker, TimePoint now);
  /// A health check failed or a request broke on the wire.
  bool on_failure(WorkerId worker, std::string_view problem, TimePoint now);
  /// Whether its KV event stream is connected, whole and readable.
  void set_events_exact(WorkerId worker, bool exact);
  void set_limits(WorkerId worker, const routing::EngineLimits& limits);

  [[nodiscard]] std::size_t size() const { return workers_.size(); }
  [[nodiscard]] const Worker& worker(WorkerId worker) const { return workers_.at(worker.value()); }
  /// For Router::route(): valid as long as the fleet, always up to date.
  [[nodiscard]] std::span<const routing::WorkerView> views() const { return views_; }
  [[nodiscard]] bool any_available() const;

 private:
  bool set_health(Worker& worker, WorkerHealth health, TimePoint now);

  Options options_;
  std::vector<Worker> workers_;
  std::vector<routing::WorkerView> views_;
};

}  // namespace kvist::dispatch

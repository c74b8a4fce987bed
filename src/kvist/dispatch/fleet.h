// The workers behind the gateway: who they are and whether they can be given requests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/id.h"
#include "kvist/base/time.h"
#include "kvist/routing/limit_inference.h"
#include "kvist/routing/worker_view.h"

namespace kvist::dispatch {

/// Health of a worker. Failures are health checks without a good answer and requests that broke on the wire. A request
/// that was answered with an error of the server's raises doubt: it may be the request that no worker can bear.
enum class WorkerHealth : std::uint8_t {
  kHealthy,
  kSuspect,    ///< failed, but not often enough in a row to be sure: used only when no worker is healthy
  kUnhealthy,  ///< failed too often in a row, or never seen yet: not used
};
[[nodiscard]] std::string_view to_string(WorkerHealth health);

/// Where a limit of a worker comes from.
enum class LimitSource : std::uint8_t {
  kUnknown,
  kInferred,    ///< from queueing seen (routing/limit_inference.h)
  kReported,    ///< by the worker
  kConfigured,  ///< the gateway was told: wins over all others
};
[[nodiscard]] std::string_view to_string(LimitSource source);

/// Health and availability of all workers, by WorkerId. Pure state machine; one thread.
///   any + success            -> healthy
///   healthy + failure        -> suspect
///   suspect + failure        -> unhealthy, once `failures_to_unhealthy` came in a row
///   healthy + server error   -> suspect: its next health check decides
/// A worker may stand still besides, whatever its health checks say. Invariant: views()[w].available exactly for the
/// healthy workers that do not stand still; while there is none, for the suspects that do not; while there is none, for
/// the healthy ones that do.
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
    bool stalled = false;                          ///< it has work and says nothing
    std::uint64_t stalls = 0;                      ///< times that began
    std::optional<TimePoint> answered = {};        ///< when it last answered a request as it should
    routing::EngineLimits configured = {};
    routing::EngineLimits reported = {};
    routing::LimitInference inference = {};
  };

  Fleet(std::vector<std::string> names, Options options);

  /// A health check went well. Returns whether the worker's health changed; the same below.
  bool on_success(WorkerId worker, TimePoint now);
  /// A health check failed or a request broke on the wire.
  bool on_failure(WorkerId worker, std::string_view problem, TimePoint now);
  /// It answered a request with an error of its own.
  bool on_server_error(WorkerId worker, std::string_view problem, TimePoint now);
  /// It answered a request as it should: a sign of life, which brings no health back.
  void on_answer(WorkerId worker, TimePoint now) { workers_.at(worker.value()).answered = now; }
  /// Whether its KV event stream is connected, whole and readable.
  void set_events_exact(WorkerId worker, bool exact);
  /// Which of the ways to make tokens of a text is the worker's.
  void set_reading(WorkerId worker, std::uint8_t reading);
  /// What the worker reports; what is 0 stays unknown.
  void set_limits(WorkerId worker, const routing::EngineLimits& limits);
  /// What the gateway was told of it; what is not 0 wins over the worker's word.
  void configure_limits(WorkerId worker, const routing::EngineLimits& limits);
  /// The worker's own count of its requests.
  void on_load_report(WorkerId worker, double running, double waiting);
  /// A request's first token is here, with so many decoding on the worker; `late`: far later than forecast.
  void on_first_token(WorkerId worker, std::uint32_t decoding, bool late);
  /// The worker is a new process.
  void on_restarted(WorkerId worker);
  /// It has work and has said nothing for longer than that can take; or it goes on. Returns whether that changed.
  bool set_stalled(WorkerId worker, bool stalled);

  [[nodiscard]] LimitSource batch_slots_source(WorkerId worker) const;

  [[nodiscard]] std::size_t size() const { return workers_.size(); }
  [[nodiscard]] const Worker& worker(WorkerId worker) const { return workers_.at(worker.value()); }
  /// For Router::route(): valid as long as the fleet, always up to date.
  [[nodiscard]] std::span<const routing::WorkerView> views() const { return views_; }
  [[nodiscard]] bool any_available() const;

 private:
  bool set_health(Worker& worker, WorkerHealth health, TimePoint now);
  void update_availability();
  void update_limits(WorkerId worker);

  Options options_;
  std::vector<Worker> workers_;
  std::vector<routing::WorkerView> views_;
};

}  // namespace kvist::dispatch

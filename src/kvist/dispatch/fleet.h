// The workers behind the gateway, and whether they can be given requests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kvist/base/id.h"
#include "kvist/base/time.h"
#include "kvist/dispatch/outlier_watch.h"
#include "kvist/routing/fleet_view.h"
#include "kvist/routing/limit_inference.h"
#include "kvist/routing/worker_view.h"

namespace kvist::dispatch {

/// Health of a worker. Failures are health checks without a good answer and requests whose connection failed. A server
/// error in answer to a request only raises doubt, because the request itself may be one that makes every worker fail.
enum class WorkerHealth : std::uint8_t {
  kHealthy,
  kSuspect,    ///< failed, but not often enough in a row to be sure: used only if no worker is healthy
  kUnhealthy,  ///< failed too often in a row, or not checked yet: not used
};
[[nodiscard]] std::string_view to_string(WorkerHealth health);

/// The source of a worker's limit.
enum class LimitSource : std::uint8_t {
  kUnknown,
  kInferred,    ///< from observed queueing (routing/limit_inference.h)
  kReported,    ///< by the worker
  kConfigured,  ///< in the gateway's configuration, which takes precedence
};
[[nodiscard]] std::string_view to_string(LimitSource source);

/// Health and availability of all workers, by WorkerId. A state machine. Threads: one.
///   any + success -> healthy
///   healthy + failure -> suspect
///   suspect + failure -> unhealthy, once `failures_to_unhealthy` came in a row
///   healthy + server error -> suspect: its next health check decides
/// Besides, whatever its health checks say, a worker may be stalled, or ejected because of its answers (OutlierWatch),
/// or serve another model (ModelWatch), or be closed to new requests (WorkerPlaces). The number of ids is fixed; those
/// without a worker are vacant places, which take part in nothing. Invariant: views()[w].available is true exactly for
/// the first group that is not empty. The groups, best first: healthy, suspect, ejected and healthy, ejected and
/// suspect, then stalled workers in the same four. An unhealthy worker, one of another model, a closed one and a vacant
/// place are in no group. Requires: every WorkerId is below size().
class Fleet {
 public:
  struct Options {
    std::uint32_t failures_to_unhealthy = 3;
  };
  struct Worker {
    std::string name;             ///< of the one that was here last, if the place is vacant
    bool vacant = false;          ///< there is no worker of this id
    bool open = true;             ///< it may be given new requests, as far as its operator is concerned
    bool retired = false;         ///< it is being removed
    std::uint64_t occupants = 0;  ///< how many workers the place has had
    WorkerHealth health = WorkerHealth::kUnhealthy;
    std::uint32_t failures_in_a_row = 0;
    std::uint64_t failures = 0;
    TimePoint since{};                             ///< when `health` last changed
    std::uint64_t changes = 0;                     ///< how often `health` changed
    std::string last_problem = "not checked yet";  ///< the last failure; empty while healthy
    std::string last_failure = {};                 ///< the last failure, if there was one, however long ago
    bool stalled = false;                          ///< it has work and generates nothing
    std::uint64_t stalls = 0;                      ///< how often it stalled
    Ejection ejection = Ejection::kIn;
    bool serves_model = true;
    TimePoint found{};                       ///< when it last stopped being healthy, or began to stall
    std::optional<TimePoint> answered = {};  ///< when it last answered a request correctly
    routing::EngineLimits configured = {};
    routing::EngineLimits reported = {};
    routing::LimitInference inference = {};
  };

  /// The workers have the first ids; `places`, if more than those, is the number of ids.
  Fleet(std::vector<std::string> names, Options options, std::size_t places = 0);

  /// A new worker takes a vacant place. Ensures: nothing of the place's last worker is left.
  void occupy(WorkerId place, std::string name);
  /// Requires: nobody has requests there.
  void vacate(WorkerId worker);
  /// Closes a worker to new requests, or opens it again.
  void set_open(WorkerId worker, bool open);
  /// The worker is closed and counts as dead from here on, so that its requests leave it.
  void retire(WorkerId worker, TimePoint now);

  /// A health check succeeded. Returns whether the worker's health changed; so do the next two.
  bool on_success(WorkerId worker, TimePoint now);
  /// A health check failed, or the connection of a request did.
  bool on_failure(WorkerId worker, std::string_view problem, TimePoint now);
  /// The worker answered a request with a server error.
  bool on_server_error(WorkerId worker, std::string_view problem, TimePoint now);
  /// The worker answered a request correctly. That does not make it healthy again, but saves its next health check.
  void on_answer(WorkerId worker, TimePoint now) { workers_.at(worker.value()).answered = now; }
  /// Whether its KV event stream is connected, whole and readable.
  void set_events_exact(WorkerId worker, bool exact);
  /// How many requests of the worker may wait for their first token; 0: any number.
  void set_most_waiting(WorkerId worker, std::uint32_t requests) {
    change(worker, &routing::WorkerView::most_waiting, requests);
  }
  /// The adapters of the model that the worker has, sorted.
  void set_adapters(WorkerId worker, std::vector<std::string> adapters);
  /// The worker's reading, as PromptReading::number().
  void set_reading(WorkerId worker, std::uint8_t reading);
  /// The limits that the worker reports; 0 means unknown.
  void set_limits(WorkerId worker, const routing::EngineLimits& limits);
  /// The configured limits. Those that are not 0 take precedence over the worker's report.
  void configure_limits(WorkerId worker, const routing::EngineLimits& limits);
  /// The worker reported how many of its requests run and wait.
  void on_load_report(WorkerId worker, double running, double waiting);
  /// A request's first token came while `decoding` requests were decoding on the worker. `late`: far later than
  /// forecast.
  void on_first_token(WorkerId worker, std::uint32_t decoding, bool late);
  /// The worker is a new process.
  void on_restarted(WorkerId worker);
  /// Sets whether the worker is stalled. Returns whether that changed.
  bool set_stalled(WorkerId worker, bool stalled, TimePoint now);
  void set_ejection(WorkerId worker, Ejection ejection);
  /// Whether the worker serves the gateway's model, and with what context length in tokens (0: unknown).
  void set_model(WorkerId worker, bool serves_model, std::uint32_t max_model_len);

  [[nodiscard]] LimitSource batch_slots_source(WorkerId worker) const;

  /// The number of ids, vacant places included.
  [[nodiscard]] std::size_t size() const { return workers_.size(); }
  [[nodiscard]] bool is_vacant(WorkerId worker) const { return workers_.at(worker.value()).vacant; }
  [[nodiscard]] const Worker& worker(WorkerId worker) const { return workers_.at(worker.value()); }
  /// For Router::route(). Always up to date, and valid as long as the fleet.
  [[nodiscard]] routing::FleetView views() const { return {views_, version_}; }
  [[nodiscard]] bool any_available() const;
  [[nodiscard]] OutlierWatch::Usable usable() const;

 private:
  bool set_health(Worker& worker, WorkerHealth health, TimePoint now);
  [[nodiscard]] static std::uint8_t group_of(const Worker& worker);
  void update_availability();
  void update_limits(WorkerId worker);
  template <class Value>
  void change(WorkerId worker, Value routing::WorkerView::* member, Value value) {
    Value& known = views_.at(worker.value()).*member;
    if (known == value) return;
    known = std::move(value);
    ++version_;
  }

  Options options_;
  std::vector<Worker> workers_;
  std::vector<routing::WorkerView> views_;
  std::uint64_t version_ = 1;  // of views_: what changes one of them makes it another
};

}  // namespace kvist::dispatch

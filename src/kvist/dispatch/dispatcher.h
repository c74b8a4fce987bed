// Request lifecycle without the network: admission, routing, retry, outcome.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/id.h"
#include "kvist/base/slot_table.h"
#include "kvist/base/time.h"
#include "kvist/dispatch/attempt_failure.h"
#include "kvist/dispatch/fleet.h"
#include "kvist/dispatch/fleet_demand.h"
#include "kvist/dispatch/hold_check.h"
#include "kvist/dispatch/hold_queue.h"
#include "kvist/dispatch/outcome.h"
#include "kvist/dispatch/outlier_watch.h"
#include "kvist/dispatch/prefill_share.h"
#include "kvist/dispatch/request_profile.h"
#include "kvist/dispatch/retry_budget.h"
#include "kvist/dispatch/silence_watch.h"
#include "kvist/dispatch/stall_watch.h"
#include "kvist/dispatch/wait_admission.h"
#include "kvist/dispatch/warm_up.h"
#include "kvist/routing/router.h"
#include "kvist/spec/deployment.h"

namespace kvist::dispatch {

/// A worker's refusal that may be the client's fault (is_disputed()).
struct Dispute {
  WorkerId worker;
  AttemptFailure failure = AttemptFailure::kUnauthorized;
  std::string problem;
  TimePoint began;         ///< of the attempt
  bool tried_out = false;  ///< it was the one that tried the worker out
};

/// What the dispatcher keeps of a request from start() to finish(). The router has the record of the attempt at a
/// worker.
struct DispatchedRequest {
  routing::RouteQuery query;         ///< for further attempts
  WorkerId worker;                   ///< of the last attempt
  routing::RequestHandle attempt;    ///< the router's record of it
  std::uint32_t retries = 0;         ///< that were paid for
  std::uint32_t free_retries = 0;    ///< since the answer last went on by some tokens
  std::uint32_t resumed_tokens = 0;  ///< how far it was then
  std::uint32_t prompt_tokens = 0;   ///< without those of a resumed answer
  bool streams = false;
  bool generates = true;
  bool at_worker = false;  ///< an attempt is under way
  bool paused = false;     ///< its answer is not read at the moment
  bool tries_out = false;  ///< the attempt decides whether its ejected worker comes back
  bool carried = false;    ///< RequestProfile::carried
  bool was_held = false;   ///< so that its workers have only a part of its time
  SilenceWatch::Wait wait = {};
  std::vector<Dispute> disputes = {};
  Tenant tenant = {};
  double charged_tokens = 0;  ///< to its tenant
};
using DispatchHandle = SlotHandle<DispatchedRequest>;

/// A request that was started, with the decision for its first attempt.
struct Ticket {
  DispatchHandle handle;
  routing::Decision decision;
  Duration held{};  ///< how long it waited here before that
};

using Started = std::expected<Ticket, Refusal>;

/// A request that came: it was started or refused, or it is held.
struct Arrived {
  std::optional<Started> started = {};
  HoldId held = {};  ///< if it was not started
};
/// A request that is held no longer.
struct Released {
  HoldId id;
  Started started;
};

/// Cumulative counts, for metrics.
struct DispatchCounters {
  OutcomeCounts without_worker;          ///< of requests that were rejected, or that no worker could take
  std::vector<OutcomeCounts> by_worker;  ///< by WorkerId, for the last worker tried
  std::vector<std::array<std::uint64_t, kAttemptFailures>> failures;  ///< of attempts, by WorkerId and AttemptFailure
  std::uint64_t paid_retries = 0;         ///< further attempts that were taken out of the retry budget
  std::uint64_t free_retries = 0;         ///< further attempts that were not (Dispatcher::is_free())
  std::uint64_t retries_over_budget = 0;  ///< attempts that were not made because the retry budget was used up
  [[nodiscard]] std::uint64_t retries() const { return paid_retries + free_retries; }
  std::uint64_t held = 0;           ///< requests that were held
  std::uint64_t held_too_long = 0;  ///< of these, those that no worker had room for within HoldSpec::max_wait
  Duration held_time{};             ///< of those that are held no longer
  // Of requests whose worker reported usage: the router's predictions and the engine's figures.
  std::uint64_t usage_reports = 0;
  std::uint64_t prompt_tokens = 0;
  std::uint64_t predicted_cached_tokens = 0;
  std::uint64_t cached_tokens = 0;
  std::uint64_t cached_tokens_absolute_error = 0;
};

/// Admits, routes, retries and accounts for requests. The gateway and the simulation drive it. Threads: one. Memory:
/// bounded by `max_in_flight` requests. Invariant: a request is booked with the router exactly while an attempt is
/// under way. Requires: every start() that succeeds is followed by one finish().
class Dispatcher {
 public:
  struct Options {
    std::uint32_t max_in_flight = 4'096;
    std::uint32_t max_retries = 2;
    std::optional<spec::AdmissionSpec> admission = {};  ///< nothing: no request is refused for its wait
    std::optional<spec::HoldSpec> hold = {};            ///< nothing: no request is held
    RetryBudget::Options retry_budget = {};
    spec::EjectionSpec ejection = {};
    spec::WarmUpSpec warm_up = {};
    spec::ScalingSpec scaling = {};
    Duration silence_timeout = std::chrono::seconds(2);  ///< the least patience with a silent worker

    /// `in_gateway`: requests are refused for their wait, and held, where the file does not say whether.
    [[nodiscard]] static Options of(const spec::ServedModelSpec& model, bool in_gateway);
  };

  /// Requires: fleet and router outlive this object.
  Dispatcher(const Options& options, Fleet& fleet, routing::Router& router);

  /// Whether start() would admit a request. It is asked before a request is read, to save that work.
  [[nodiscard]] bool has_room() const { return under_way() < options_.max_in_flight; }
  /// Admits and routes a request. Returns kUnavailable if `max_in_flight` is reached or no worker is available,
  /// kResourceExhausted if it would wait too long (WaitAdmission).
  [[nodiscard]] Started start(const RequestProfile& profile, TimePoint now);
  /// As start(), but a request that should wait here (HoldCheck) is held, if Options::hold says so and the mode is kv.
  /// Then release() has what became of it, unless drop() comes first.
  [[nodiscard]] Arrived start_or_hold(const RequestProfile& profile, TimePoint now);
  /// Starts the held requests whose turn it is and for which there is room, and refuses those that waited too long:
  /// with kDeadlineExceeded (Outcome::kTimedOut) at the end of their own time, otherwise with kResourceExhausted. To be
  /// called when an answer has begun or ended, and several times a second. Looks at most every kLookPause.
  [[nodiscard]] std::vector<Released> release(TimePoint now);
  /// The client of a held request has left. Returns false if it is held no longer.
  bool drop(HoldId id, TimePoint now);
  /// The gateway waits no longer: refuses all that are held.
  [[nodiscard]] std::vector<Released> refuse_held(const Error& error, TimePoint now);
  [[nodiscard]] std::size_t held() const { return holds_.size(); }
  static constexpr Duration kLookPause = std::chrono::milliseconds(10);

  /// The attempt failed. Returns the decision for the next attempt, or nothing if the request has to end; finish() is
  /// still to be called. `resumed_tokens`: how many tokens of the answer the client has, behind which the next worker
  /// goes on; 0 if it has none.
  [[nodiscard]] std::optional<routing::Decision> on_attempt_failed(DispatchHandle handle, AttemptFailure failure,
                                                                   std::string_view problem, TimePoint now,
                                                                   std::uint32_t resumed_tokens = 0);
  /// The proxy that carries the request could not give it to the worker of the decision and gave it to this one,
  /// whatever its health. Returns the decision for this worker. If it was removed from the fleet, returns nothing
  /// and changes nothing.
  [[nodiscard]] std::optional<routing::Decision> on_served_by(DispatchHandle handle, WorkerId worker,
                                                              std::string_view problem, TimePoint now);
  /// The client is slow, so the answer is not read for a while, and its silence says nothing about the worker.
  void on_paused(DispatchHandle handle);
  void on_resumed(DispatchHandle handle, TimePoint now);
  /// The connection failed after the answer had begun, which counts against the worker's health.
  void on_stream_broken(DispatchHandle handle, std::string_view problem, TimePoint now);
  /// The worker sent an error frame in an answer that had begun, which puts its health in doubt.
  void on_stream_error(DispatchHandle handle, std::string_view problem, TimePoint now);
  // What the worker of an attempt reports. The calls name the attempt by the handle in its decision.
  /// Prefetches the memory that on_progress() reads.
  void prefetch(routing::RequestHandle attempt) const { router_->prefetch(attempt); }
  void on_first_token(routing::RequestHandle attempt, TimePoint now);
  void on_progress(routing::RequestHandle attempt, std::uint64_t tokens, TimePoint now);
  // See Router::join_run().
  void join_run(routing::RequestHandle attempt) { router_->join_run(attempt); }
  void leave_run(routing::RequestHandle attempt) { router_->leave_run(attempt); }
  void on_run_step(WorkerId worker, TimePoint now);
  /// The whole answer arrived at once. The router learns the worker's speed from it.
  void on_whole_answer(routing::RequestHandle attempt, const routing::WholeAnswer& answer, TimePoint now);
  /// The engine reported usage in its answer.
  void on_usage(routing::RequestHandle attempt, std::uint64_t prompt_tokens, std::uint64_t cached_tokens);
  /// The request has ended. Requires: it is called once per request, whose handle is invalid from then on.
  void finish(DispatchHandle handle, Outcome outcome, TimePoint now);

  /// A worker did something that shows that its process runs: it answered a health check well.
  void on_sign_of_life(WorkerId worker, TimePoint now) { silence_.on_life(worker, now); }
  /// The worker is a new process. Forgets its predecessor's failures, and those of the requests under way, which may be
  /// given to it again.
  void on_worker_restarted(WorkerId worker, TimePoint now);

  /// A new worker has joined a fleet whose other workers are known.
  void on_worker_added(WorkerId worker) { warm_up(worker); }
  /// The worker is taken out of the fleet. Its requests have to leave it, which costs no retry.
  void on_worker_removed(WorkerId worker, TimePoint now);
  /// Whether any request is, or was last, at the worker.
  [[nodiscard]] bool uses(WorkerId worker);
  /// Here, in the router and in the fleet the id is free for another worker from now on; its place becomes vacant.
  /// Requires: uses() is false, and the router's event_index() has forgotten it.
  void forget(WorkerId worker);

  /// What check() found.
  struct Findings {
    std::vector<WorkerId> stalled;  ///< began to stall
    /// Workers that have stalled for so long that requests without an answer may leave them (leave(), kStalled).
    /// Reported again when requests had to stay because the retry budget was empty and it has a retry now, or because
    /// there was no other worker and the fleet has changed.
    std::vector<WorkerId> hung;
    std::vector<WorkerId> ask;  ///< silent: check their health now
    /// A request that waits at a worker without any sign of life, and may leave it (leave(), kSilent).
    struct Leaving {
      DispatchHandle request;
      WorkerId worker;
    };
    std::vector<Leaving> leave;
  };
  /// Finds workers that stall or are silent, and workers that no longer are, and informs the fleet. Takes a sample of
  /// the demand(). To be called several times within `silence_timeout`.
  [[nodiscard]] Findings check(TimePoint now);
  /// Moves a request away from its worker. Returns nothing if there is no other worker or no retry left; then the
  /// request stays, because the worker may continue. `resumed_tokens`: as for on_attempt_failed().
  [[nodiscard]] std::optional<routing::Decision> leave(DispatchHandle handle, AttemptFailure failure, TimePoint now,
                                                       std::uint32_t resumed_tokens = 0);

  [[nodiscard]] std::size_t in_flight() const { return live_.size(); }
  /// With those that are held.
  [[nodiscard]] std::size_t under_way() const { return live_.size() + holds_.size(); }
  [[nodiscard]] const DispatchCounters& counters() const { return counters_; }
  [[nodiscard]] const OutlierWatch& outliers() const { return outliers_; }
  [[nodiscard]] const RetryBudget& retry_budget() const { return budget_; }
  [[nodiscard]] const WaitAdmission& admission() const { return admission_; }
  [[nodiscard]] WaitAdmission& admission() { return admission_; }
  [[nodiscard]] const FleetDemand& demand() const { return demand_; }

 private:
  /// start() behind its first checks. Returns nothing if `hold`, which may be null, turned down what was left to choose
  /// from. `came`: when a request that was held did.
  [[nodiscard]] std::optional<Started> try_start(const RequestProfile& profile, std::optional<TimePoint> came,
                                                 TimePoint now, HoldCheck* hold);
  /// Counts a request that no worker got.
  [[nodiscard]] std::unexpected<Refusal> turn_away(Refusal refusal);
  void measure_prefill(TimePoint now);
  [[nodiscard]] bool may_hold(const RequestProfile& profile) const;
  /// What a worker has to do for the request to begin there now.
  [[nodiscard]] HoldCheck hold_check(const RequestProfile& profile, TimePoint now);
  [[nodiscard]] Released let_go(HoldId id, Started started, TimePoint now);
  /// When a request that waits here can no longer be answered in its time.
  [[nodiscard]] TimePoint latest_of(const RequestProfile& profile, double service_ms, TimePoint came) const;
  void refuse_late(TimePoint now, std::vector<Released>& released);
  [[nodiscard]] Refusal late_refusal(const RequestProfile& profile, TimePoint came, TimePoint now);
  void release_overdue(TimePoint now, std::vector<Released>& released);
  /// give() begins an attempt, the next function ends it.
  void give(DispatchedRequest& request, const routing::Decision& decision, TimePoint now);
  void take_back(DispatchedRequest& request, TimePoint now);
  [[nodiscard]] DispatchedRequest& live(DispatchHandle handle);
  [[nodiscard]] Result<routing::Decision> route(const RequestProfile& profile, routing::RouteQuery& query,
                                                TimePoint now, routing::AdmissionCheck* check);
  void charge(DispatchedRequest& request, double tokens, TimePoint now);
  [[nodiscard]] std::optional<routing::Decision> retry(DispatchHandle handle, bool free, TimePoint now);
  [[nodiscard]] bool is_free(const DispatchedRequest& request, AttemptFailure failure) const;
  static void note_progress(DispatchedRequest& request, std::uint32_t resumed_tokens);
  /// Whether another worker could take the request if it left its present one.
  [[nodiscard]] bool can_go_elsewhere(const DispatchedRequest& live) const;
  void apply_ejection(WorkerId worker);
  void warm_up(WorkerId worker);
  void on_warm_answer(WorkerId worker);
  void end_ejections(TimePoint now);
  void on_good_answer(WorkerId worker, bool complete, TimePoint now);
  void on_bad_answer(WorkerId worker, AttemptFailure failure, std::string_view problem, TimePoint began, bool broke_off,
                     TimePoint now);
  /// Whether the attempt has given its first token.
  [[nodiscard]] bool has_begun(const DispatchedRequest& request) const;
  [[nodiscard]] bool is_idle_refusal(WorkerId worker, TimePoint now) const;
  void judge_attempt(DispatchedRequest& request, AttemptFailure failure, std::string_view problem, TimePoint now);
  void settle(DispatchedRequest& request, TimePoint now);
  void note_too_large(WorkerId worker, TimePoint now);
  void settle_disputes_of(routing::RequestHandle attempt, TimePoint now);
  void check_stalls(Findings& findings, TimePoint now);
  /// Whether requests that wait at a worker that hangs are to be asked to leave it.
  [[nodiscard]] bool may_leave_now(WorkerId hung) const;

  /// Whether a worker is among Findings::hung, and has requests for which there was no other worker.
  struct Hung {
    std::uint64_t reported = 0;  // the fleet's version when it was; 0: it was not
    bool keeps = false;          // such a request
  };

  Options options_;
  Fleet* fleet_;
  routing::Router* router_;
  RetryBudget budget_;
  StallWatch stalls_;
  SilenceWatch silence_;
  OutlierWatch outliers_;
  WaitAdmission admission_;
  WarmUp warm_up_;
  FleetDemand demand_;
  HoldQueue holds_;
  TimePoint looked_{};                      // when release() last did
  TimePoint next_overdue_{};                // when the next one that waited too long may begin all the same
  PrefillShare prefill_;                    // of requests that were routed
  PrefillShare recomputed_;                 // the part that some worker had computed before
  std::vector<Hung> hung_;                  // by WorkerId
  std::vector<TimePoint> too_large_since_;  // by WorkerId: the first answer that was too large; the epoch: none was
  /// Attempts of requests with disputes, which a good answer decides.
  struct Disputed {
    routing::RequestHandle attempt;
    DispatchHandle request;
  };
  std::vector<Disputed> disputed_;
  RequestId last_id_{0};
  SlotTable<DispatchedRequest> live_;
  DispatchCounters counters_;
};

}  // namespace kvist::dispatch

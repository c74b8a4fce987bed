// Request lifecycle without the network: admission, routing, retry, outcome.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/id.h"
#include "kvist/base/slot_table.h"
#include "kvist/base/time.h"
#include "kvist/dispatch/fleet.h"
#include "kvist/dispatch/outcome.h"
#include "kvist/dispatch/retry_budget.h"
#include "kvist/dispatch/stall_watch.h"
#include "kvist/routing/router.h"

namespace kvist::dispatch {

/// What has to be known of a request to route it.
struct RequestProfile {
  std::uint32_t prompt_tokens = 0;
  routing::BlockKeys blocks;
  std::vector<routing::PromptKeys> otherwise = {};  ///< for workers that tokenize the prompt's text differently
  bool reads_cache = true;    ///< false: the engine computes all of the prompt, whatever is cached
  std::uint64_t session = 0;  ///< hash of the session that the client named; 0: none
  std::string name = {};      ///< the client's name for the request
  bool streams = false;       ///< its tokens arrive one by one, so that a stall can be noticed
};

/// What the dispatcher keeps of a request from start() to finish(). The router has the record of the attempt at a
/// worker.
struct DispatchedRequest {
  routing::RouteQuery query;       ///< for further attempts
  WorkerId worker;                 ///< of the last attempt
  routing::RequestHandle attempt;  ///< the router's record of it
  std::uint32_t retries = 0;
  bool streams = false;
  bool at_worker = false;  ///< an attempt is under way
  bool paused = false;     ///< its answer is not read at the moment
};
using DispatchHandle = SlotHandle<DispatchedRequest>;

/// A request that was started, with the decision for its first attempt.
struct Ticket {
  DispatchHandle handle;
  routing::Decision decision;
};

/// Why an attempt at a worker failed.
enum class AttemptFailure : std::uint8_t {
  kTransport,     ///< no connection, a broken one, or not HTTP: counts against the worker's health
  kTimedOut,      ///< the request's deadline passed: counts against the worker's health, and leaves no time for another
                  ///< attempt
  kBackPressure,  ///< the worker answered 429 or 503: it is healthy, but another worker may have free capacity
  kServerError,   ///< another 5xx, or a stream that began with an error: puts its health in doubt
  kStalled,       ///< the worker stalled: check_stalls() has counted that already
};

/// Cumulative counts, for metrics.
struct DispatchCounters {
  OutcomeCounts without_worker;           ///< of requests that were rejected, or that no worker could take
  std::vector<OutcomeCounts> by_worker;   ///< by WorkerId, for the last worker tried
  std::uint64_t retries = 0;              ///< further attempts made
  std::uint64_t retries_over_budget = 0;  ///< attempts that were not made because the retry budget was used up
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
    RetryBudget::Options retry_budget;
  };

  /// Requires: fleet and router outlive this object.
  Dispatcher(Options options, Fleet& fleet, routing::Router& router);

  /// Whether start() would admit a request. It is asked before a request is read, to save that work.
  [[nodiscard]] bool has_room() const { return live_.size() < options_.max_in_flight; }
  /// Admits and routes a request. Returns kUnavailable if `max_in_flight` is reached or no worker is available; the
  /// client may try again after kRetryAfter.
  [[nodiscard]] Result<Ticket> start(const RequestProfile& profile, TimePoint now);
  static constexpr std::chrono::seconds kRetryAfter{1};

  /// The attempt failed before anything of the answer went to the client. Returns the decision for the next attempt, or
  /// nothing if the request has to end; finish() is still to be called.
  [[nodiscard]] std::optional<routing::Decision> on_attempt_failed(DispatchHandle handle, AttemptFailure failure,
                                                                   std::string_view problem, TimePoint now);
  /// The client is slow, so that the answer is not read for a while: its silence says nothing about the worker.
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
  /// The whole answer arrived at once. The router learns the worker's speed from it.
  void on_whole_answer(routing::RequestHandle attempt, const routing::WholeAnswer& answer, TimePoint now);
  /// The engine reported usage in its answer.
  void on_usage(routing::RequestHandle attempt, std::uint64_t prompt_tokens, std::uint64_t cached_tokens);
  /// The request has ended.
  void finish(DispatchHandle handle, Outcome outcome, TimePoint now);

  /// Finds workers that stall, and workers that no longer do, and informs the fleet. Returns the workers whose stall
  /// began; requests that wait there for the beginning of their answer may leave (leave_stalled()). To be called a few
  /// times a second.
  [[nodiscard]] std::vector<WorkerId> check_stalls(TimePoint now);
  /// Moves a request away from a stalled worker. Returns nothing if there is no other worker or no retry left; then the
  /// request stays, because the worker may continue. Requires: nothing of its answer went to the client.
  [[nodiscard]] std::optional<routing::Decision> leave_stalled(DispatchHandle handle, TimePoint now);

  [[nodiscard]] std::size_t in_flight() const { return live_.size(); }
  [[nodiscard]] const DispatchCounters& counters() const { return counters_; }

 private:
  /// give() begins an attempt, the next function ends it.
  void give(DispatchedRequest& request, const routing::Decision& decision, TimePoint now);
  void take_back(DispatchedRequest& request);
  [[nodiscard]] DispatchedRequest& live(DispatchHandle handle);
  [[nodiscard]] std::optional<routing::Decision> retry(DispatchedRequest& request, TimePoint now);

  Options options_;
  Fleet* fleet_;
  routing::Router* router_;
  RetryBudget budget_;
  StallWatch stalls_;
  RequestId last_id_{0};
  SlotTable<DispatchedRequest> live_;
  DispatchCounters counters_;
};

}  // namespace kvist::dispatch

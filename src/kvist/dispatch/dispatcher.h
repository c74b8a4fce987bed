// The life of a routed request, without the network: admission, routing, retry, outcome.
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

/// What a request asks of a worker.
struct RequestProfile {
  std::uint32_t prompt_tokens = 0;
  routing::BlockKeys blocks;
  std::vector<routing::PromptKeys> otherwise = {};  ///< for workers that make other tokens of the prompt's text
  bool reads_cache = true;                          ///< false: all of the prompt is computed, whatever is cached
  std::uint64_t session = 0;                        ///< what the client says the request belongs to, hashed; 0: nothing
  std::string name = {};                            ///< what the client calls the request
  bool streams = false;  ///< its tokens come one by one, so that a worker that stops can be noticed
};

/// What the dispatcher keeps of a request from start() to finish(); what is at a worker is the router's.
struct DispatchedRequest {
  routing::RouteQuery query;       ///< for a further attempt
  WorkerId worker;                 ///< of the last attempt
  routing::RequestHandle attempt;  ///< the router's record of it
  std::uint32_t retries = 0;
  bool streams = false;
  bool at_worker = false;  ///< an attempt is under way
};
using DispatchHandle = SlotHandle<DispatchedRequest>;

/// A request under way and the worker of its first attempt.
struct Ticket {
  DispatchHandle handle;
  routing::Decision decision;
};

/// Why an attempt at a worker came to nothing.
enum class AttemptFailure : std::uint8_t {
  kTransport,     ///< no connection, a broken one, or not HTTP: counts against the worker's health
  kTimedOut,      ///< the request's deadline passed: counts against its health, and no time is left to try again
  kBackPressure,  ///< the worker answered 429 or 503: it lives, but another may have room
  kServerError,   ///< another 5xx, or a stream that began with an error: puts its health in doubt
  kStalled,       ///< the worker stands still: noticed by check_stalls(), so it counts no further
};

/// Cumulative counts, for metrics.
struct DispatchCounters {
  OutcomeCounts without_worker;           ///< rejected, or no worker could take it
  std::vector<OutcomeCounts> by_worker;   ///< by WorkerId: the last worker tried
  std::uint64_t retries = 0;              ///< further attempts made
  std::uint64_t retries_over_budget = 0;  ///< not made, because the budget across requests was used up
  // Requests whose worker reported usage: what the router predicted against what the engine says.
  std::uint64_t usage_reports = 0;
  std::uint64_t prompt_tokens = 0;
  std::uint64_t predicted_cached_tokens = 0;
  std::uint64_t cached_tokens = 0;
  std::uint64_t cached_tokens_absolute_error = 0;
};

/// Admits, routes, retries and accounts for requests. Pure: the gateway and the simulation drive it. One thread.
/// Bounded: at most `max_in_flight` requests at once. Invariant: a request is booked with the router exactly while an
/// attempt is under way; every start() that succeeds is followed by one finish().
class Dispatcher {
 public:
  struct Options {
    std::uint32_t max_in_flight = 4'096;
    std::uint32_t max_retries = 2;
    RetryBudget::Options retry_budget;
  };

  /// Fleet and router outlive it; it calls both.
  Dispatcher(Options options, Fleet& fleet, routing::Router& router);

  /// Whether start() would admit one more: asked before the work of reading a request is done.
  [[nodiscard]] bool has_room() const { return live_.size() < options_.max_in_flight; }
  /// kUnavailable where the bound is reached or no worker is available: the client may try again after kRetryAfter.
  [[nodiscard]] Result<Ticket> start(const RequestProfile& profile, TimePoint now);
  static constexpr std::chrono::seconds kRetryAfter{1};

  /// The attempt failed before anything of the answer went to the client. The next attempt's decision, or nothing when
  /// the request has to end (finish() is still to be called).
  [[nodiscard]] std::optional<routing::Decision> on_attempt_failed(DispatchHandle handle, AttemptFailure failure,
                                                                   std::string_view problem, TimePoint now);
  /// The connection failed after the answer began: counts against the worker's health.
  void on_stream_broken(DispatchHandle handle, std::string_view problem, TimePoint now);
  /// The worker put an error of its own into an answer that had begun: puts its health in doubt.
  void on_stream_error(DispatchHandle handle, std::string_view problem, TimePoint now);
  // What the worker of an attempt says, told by the handle in its decision.
  /// Has the processor fetch what on_progress() will touch.
  void prefetch(routing::RequestHandle attempt) const { router_->prefetch(attempt); }
  void on_first_token(routing::RequestHandle attempt, TimePoint now);
  void on_progress(routing::RequestHandle attempt, std::uint64_t tokens, TimePoint now);
  /// The answer is here, all at once: what of it tells how fast its worker is.
  void on_whole_answer(routing::RequestHandle attempt, const routing::WholeAnswer& answer, TimePoint now) {
    router_->on_whole_answer(attempt, answer, now);
  }
  /// What the engine reports for the request in its answer.
  void on_usage(routing::RequestHandle attempt, std::uint64_t prompt_tokens, std::uint64_t cached_tokens);
  /// The request is over.
  void finish(DispatchHandle handle, Outcome outcome, TimePoint now);

  /// Looks for workers that stand still, and for those that no longer do; the fleet is told. Which ones began to: what
  /// they were given and did not begin may go elsewhere (leave_stalled()). To be called a few times a second.
  [[nodiscard]] std::vector<WorkerId> check_stalls(TimePoint now);
  /// The request, of whose answer nothing went to the client, leaves a worker that stands still. Nothing where there is
  /// nowhere to go, or no retry left: it stays, as the worker may go on.
  [[nodiscard]] std::optional<routing::Decision> leave_stalled(DispatchHandle handle, TimePoint now);

  [[nodiscard]] std::size_t in_flight() const { return live_.size(); }
  [[nodiscard]] const DispatchCounters& counters() const { return counters_; }

 private:
  /// An attempt begins, or is over.
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

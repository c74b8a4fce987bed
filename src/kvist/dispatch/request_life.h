// The life of a routed request: what each thing that happens to it means, for the worker, the fleet and the client.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "kvist/base/error.h"
#include "kvist/base/id.h"
#include "kvist/base/time.h"
#include "kvist/dispatch/dispatcher.h"
#include "kvist/dispatch/outcome.h"

namespace kvist::dispatch {

/// What a status of a worker's answer means for the request's outcome, where the answer is passed on.
[[nodiscard]] Outcome outcome_of_status(int status);
/// The failure that a status is; nothing where it speaks of the request and not of the worker.
[[nodiscard]] std::optional<AttemptFailure> failure_of_status(int status);

/// What the dispatcher is to be told of a request.
enum class LifeReport : std::uint8_t {
  kNothing,
  kAttemptFailed,  ///< on_attempt_failed(): its answer goes to RequestLife::on_rerouted()
  kLeaveStalled,   ///< leave_stalled(): likewise
  kStreamBroken,   ///< on_stream_broken()
  kStreamError,    ///< on_stream_error()
};

/// What the client gets.
enum class LifeAnswer : std::uint8_t {
  kNothing,
  kPassOn,    ///< what comes from the worker, from here on
  kEnd,       ///< the orderly end of the answer
  kError,     ///< an answer that is an error; nothing of another one went out before
  kBreakOff,  ///< an error frame behind what went out, and a broken connection
};

/// What is to be done, in the order of the fields. Not every event gives an action.
struct LifeActions {
  LifeReport report = LifeReport::kNothing;
  AttemptFailure failure = AttemptFailure::kTransport;  ///< of kAttemptFailed
  std::string problem = {};                             ///< of the report, for the log and the worker's state
  bool abandon = false;                                 ///< the call to the worker: it need not go on with the answer
  std::optional<WorkerId> doubt = {};                   ///< how is it? To be asked at once
  std::optional<routing::Decision> attempt = {};        ///< a call to this worker begins
  LifeAnswer answer = LifeAnswer::kNothing;
  Error error = {};                  ///< of kError and kBreakOff, in the client's words
  std::optional<Outcome> over = {};  ///< the request has ended: Dispatcher::finish()

  /// Whether the report is a question, whose answer RequestLife::on_rerouted() waits for.
  [[nodiscard]] bool asks() const {
    return report == LifeReport::kAttemptFailed || report == LifeReport::kLeaveStalled;
  }
};

/// From the first decision to the end: attempts, retries, time-outs, what a failure becomes and what the client is
/// told. Pure: (event, now) -> actions; the gateway's sockets and the simulation's event queue drive it. One thread.
///
/// Nothing goes to the client before there is something to say, so until the answer has begun a failed worker is
/// replaced by another. A server error, as status or as a stream's first event, is a failure, but one whose answer is
/// passed on where nobody else is left to ask. Once the answer has begun, a failure ends it visibly.
/// Invariants: each request ends once (`over`); after that events give no actions. An attempt's failure is reported
/// once, and kBreakOff comes only after on_begun(), kError only before.
class RequestLife {
 public:
  /// `deadline`: of the request, however many workers it takes.
  RequestLife() = default;
  explicit RequestLife(TimePoint deadline) : deadline_(deadline) {}

  [[nodiscard]] LifeActions on_routed(const routing::Decision& decision);
  /// The dispatcher's answer to kAttemptFailed or kLeaveStalled: another worker, or none.
  [[nodiscard]] LifeActions on_rerouted(const std::optional<routing::Decision>& decision);

  /// The head of an answer is here.
  [[nodiscard]] LifeActions on_status(int status);
  /// Something of the answer goes to the client now.
  void on_begun() { begun_ = true; }
  /// The worker put an error of its own into its stream. Gives actions once per attempt.
  [[nodiscard]] LifeActions on_error_frame(std::string_view problem);
  /// The connection failed, or what came over it is no answer, or the deadline passed.
  [[nodiscard]] LifeActions on_lost(bool timed_out, std::string_view problem);
  /// The worker's answer is here whole. `with_error`: it has an error frame, of whatever kind.
  [[nodiscard]] LifeActions on_ended(bool with_error = false);
  /// The worker's answer is larger than any bound.
  [[nodiscard]] LifeActions on_too_large();

  /// The worker stands still: where nothing of its answer is here, the request may leave.
  [[nodiscard]] LifeActions on_worker_stalled(WorkerId worker);
  /// The worker stands still and answers no health check: as if the connection had failed.
  [[nodiscard]] LifeActions on_worker_lost(WorkerId worker);
  [[nodiscard]] LifeActions on_client_gone();
  /// The gateway ends, and waits no longer.
  [[nodiscard]] LifeActions on_shutdown(const Error& error);

  [[nodiscard]] Duration time_left(TimePoint now) const { return deadline_ - now; }
  [[nodiscard]] const routing::Decision& decision() const { return decision_; }
  /// Something of the answer went to the client.
  [[nodiscard]] bool begun() const { return begun_; }
  /// What the worker says counts for the router: its attempt was not given up.
  [[nodiscard]] bool counts() const { return phase_ == Phase::kWaiting || phase_ == Phase::kAnswering; }
  [[nodiscard]] bool is_over() const { return phase_ == Phase::kOver; }

 private:
  enum class Phase : std::uint8_t {
    kWaiting,    // for the worker's head
    kAnswering,  // it is here
    kAsking,     // the attempt failed: is there another worker?
    kPassingOn,  // there is none: the failed attempt's answer is passed on
    kOver,
  };

  [[nodiscard]] LifeActions ask_for_another(AttemptFailure failure, std::string_view problem);
  [[nodiscard]] LifeActions end_with(const Error& error, Outcome outcome);
  [[nodiscard]] LifeActions break_off(const Error& error);

  TimePoint deadline_;
  routing::Decision decision_;
  Phase phase_ = Phase::kWaiting;
  AttemptFailure failure_ = AttemptFailure::kTransport;
  bool begun_ = false;
  bool error_frame_ = false;
  int status_ = 0;
};

/// Tells the dispatcher what `actions` have for it. Where they ask for another worker: which one it is, if any.
[[nodiscard]] std::optional<routing::Decision> next_worker(const LifeActions& actions, Dispatcher& dispatcher,
                                                           DispatchHandle request, TimePoint now);

}  // namespace kvist::dispatch

// The lifecycle of a routed request: what each event means for the worker, the fleet and the client.
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

/// The outcome of a request whose answer with this status is passed on.
[[nodiscard]] Outcome outcome_of_status(int status);
/// Which function of the dispatcher is to be called.
enum class LifeReport : std::uint8_t {
  kNothing,
  kAttemptFailed,  ///< on_attempt_failed(); its result goes to RequestLife::on_rerouted()
  kLeave,          ///< leave(); likewise
  kStreamBroken,   ///< on_stream_broken()
  kStreamError,    ///< on_stream_error()
  kServedBy,       ///< on_served_by(); its result goes to RequestLife::on_rerouted()
};

/// What the client is sent.
enum class LifeAnswer : std::uint8_t {
  kNothing,
  kPassOn,    ///< what arrives from the worker, from here on
  kEnd,       ///< the orderly end of the answer
  kError,     ///< an error as the answer; nothing was sent before
  kBreakOff,  ///< an error frame after what was sent, then the connection is closed
};

/// Actions to carry out, in the order of the fields. Not every event leads to one.
struct LifeActions {
  LifeReport report = LifeReport::kNothing;
  AttemptFailure failure = AttemptFailure::kTransport;  ///< of kAttemptFailed, kLeave and kStreamBroken
  std::uint32_t resumed_tokens = 0;                     ///< likewise: of the answer, that the client has
  std::optional<WorkerId> served_by = {};               ///< of kServedBy
  std::string problem = {};                             ///< of the report, for the log and the worker's last problem
  bool abandon = false;                                 ///< abort the call to the worker
  std::optional<WorkerId> doubt = {};                   ///< check this worker's health at once
  std::optional<routing::Decision> attempt = {};        ///< begin a call to this worker
  Duration again_in{};                                  ///< if not 0: after this time, make the same call once more
  LifeAnswer answer = LifeAnswer::kNothing;
  Error error = {};                  ///< of kError and kBreakOff, as the client gets it
  std::optional<Outcome> over = {};  ///< the request has ended: call Dispatcher::finish()

  /// Whether the report asks for another worker. Then RequestLife::on_rerouted() has to be called next.
  [[nodiscard]] bool asks() const {
    return report == LifeReport::kAttemptFailed || report == LifeReport::kLeave || report == LifeReport::kServedBy;
  }
};

/// A state machine from the first decision to the end of a request: attempts, retries, time-outs, what a failure leads
/// to and what the client is sent. It maps events to actions. The gateway's sockets and the simulation's event queue
/// drive it. Threads: one.
///
/// Nothing is sent to the client before the answer begins, so until then a failed worker can be replaced by another. A
/// server error, as the status or as a stream's first event, is a failure, and so is an answer that is not of this API.
/// If no other worker is left, it is passed on. 401, 403 and 404 are tried elsewhere too: if another worker takes the
/// request, the first one was wrong. Once the answer has begun, a failure ends it visibly, unless it can be resumed
/// elsewhere (set_resumable()): then another worker is asked for, whose answer is passed on behind what the client has.
/// Invariants: each request ends once (`over`), and later events give no actions. An attempt's failure is reported
/// once. kBreakOff comes only after on_begun(), kError only before it.
class RequestLife {
 public:
  /// `deadline` applies to the request as a whole, including all attempts. A request that is not `repeatable` goes to
  /// another worker only if the first cannot have begun it: it refused, or never got the whole request.
  RequestLife() = default;
  explicit RequestLife(TimePoint deadline, bool repeatable = true, RequestScope scope = RequestScope::kOwnModel)
      : deadline_(deadline), repeatable_(repeatable), scope_(scope) {}

  /// The decision for the first attempt. Requires: it is called once, before all others.
  [[nodiscard]] LifeActions on_routed(const routing::Decision& decision);
  /// The dispatcher's result for kAttemptFailed or kLeave: another worker, or none. Ignored if the request has
  /// ended in the meantime. May ask again: if the request cannot stay because its worker was lost in the meantime.
  /// Requires: the actions before asked for it (LifeActions::asks()).
  [[nodiscard]] LifeActions on_rerouted(const std::optional<routing::Decision>& decision);

  /// The proxy that carries the request says which worker its answer comes from; it is another than the decision's if
  /// that one could not be reached. Does nothing if it is the decision's. Requires: on_status() comes after this.
  [[nodiscard]] LifeActions on_served_by(WorkerId worker);
  /// The head of an answer arrived.
  [[nodiscard]] LifeActions on_status(int status);
  /// The first part of the attempt's answer is being sent to the client.
  void on_begun() { begun_ = attempt_begun_ = true; }
  /// If this worker fails now, another one can go on behind the `tokens` tokens that the client has; nothing: it
  /// cannot. This does not matter before the answer has begun.
  void set_resumable(std::optional<std::uint32_t> tokens) { resumable_ = tokens; }
  /// The worker's answer is not one that goes on behind what the client has. Requires: begun().
  [[nodiscard]] LifeActions on_not_resumed();
  /// The worker sent an error frame in its stream. Gives actions once per attempt. `leaving`: the frame says that the
  /// worker shuts down, which counts as a failed connection.
  [[nodiscard]] LifeActions on_error_frame(std::string_view problem, bool leaving = false);
  /// The answer under way is not of this API. If nothing of it was sent to the client, another worker is asked for.
  [[nodiscard]] LifeActions on_garbage(std::string_view problem);
  /// The connection failed, or carried no valid answer, or the deadline passed. `sent`: the worker may have the whole
  /// request.
  [[nodiscard]] LifeActions on_lost(bool timed_out, std::string_view problem, bool sent = true);
  /// The call could not be made because this machine has no socket, port or memory for it, which is not the worker's
  /// fault: nothing is reported, and the call is to be made again after a moment, or the request ends.
  [[nodiscard]] LifeActions on_exhausted();
  /// The worker's answer is complete. `with_error`: it contains an error frame of any kind.
  [[nodiscard]] LifeActions on_ended(bool with_error = false);
  /// The worker's answer, or one event of it, exceeds the gateway's bound. If nothing of it was sent to the client, one
  /// other worker is asked for. If that one's answer is as large, or there is no other, the request ends, `what` is
  /// told the client, and no worker did anything wrong.
  [[nodiscard]] LifeActions on_too_large(std::string_view what);

  /// The worker stalled, or is silent. If nothing of its answer was sent to the client, the request may leave.
  [[nodiscard]] LifeActions on_worker_stalled(WorkerId worker, AttemptFailure how = AttemptFailure::kStalled);
  /// Nothing more of a begun answer has come for too long.
  [[nodiscard]] LifeActions on_idle();
  /// The worker stalled and answers no health check. This is handled as if the connection had failed. `sent`: as for
  /// on_lost().
  [[nodiscard]] LifeActions on_worker_lost(WorkerId worker, bool sent);
  /// The worker was taken out of the fleet: its requests leave it as if the connection had failed, but it has done
  /// nothing wrong, and a client whose answer ends is told why. `sent`: as for on_lost().
  [[nodiscard]] LifeActions on_worker_removed(WorkerId worker, bool sent);
  [[nodiscard]] LifeActions on_client_gone();
  /// The gateway is shutting down and waits no longer.
  [[nodiscard]] LifeActions on_shutdown(const Error& error);

  /// How often a call that could not be made for want of a socket is made again, and after how long the first time;
  /// each further pause is twice as long.
  static constexpr std::uint32_t kExhaustedTries = 4;
  static constexpr Duration kExhaustedPause = std::chrono::milliseconds(50);

  [[nodiscard]] Duration time_left(TimePoint now) const { return deadline_ - now; }
  [[nodiscard]] const routing::Decision& decision() const { return decision_; }
  /// Whether a part of the answer was sent to the client.
  [[nodiscard]] bool begun() const { return begun_; }
  /// Whether a part of the present attempt's answer was.
  [[nodiscard]] bool attempt_begun() const { return attempt_begun_; }
  /// Whether the router should get what the worker reports, which is until the attempt fails.
  [[nodiscard]] bool counts() const { return phase_ == Phase::kWaiting || phase_ == Phase::kAnswering; }
  [[nodiscard]] bool is_over() const { return phase_ == Phase::kOver; }

 private:
  enum class Phase : std::uint8_t {
    kWaiting,    // for the head of the answer
    kAnswering,  // the head has arrived
    kAsking,     // the attempt failed, and another worker was asked for
    kPassingOn,  // there is no other worker, so the failed attempt's answer is passed on
    kOver,
  };

  /// The gateway knows that the worker cannot answer any more, and says that once.
  struct Loss {
    AttemptFailure failure = AttemptFailure::kTransport;
    std::string_view problem;  // lives as long as the program
    bool sent = true;
  };
  [[nodiscard]] LifeActions lose_worker(WorkerId worker, const Loss& loss);
  /// The worker cannot answer any more.
  [[nodiscard]] LifeActions lose(AttemptFailure failure, std::string_view problem, bool sent);
  [[nodiscard]] LifeActions ask_for_another(AttemptFailure failure, std::string_view problem);
  [[nodiscard]] LifeActions end_with(const Error& error, Outcome outcome);
  [[nodiscard]] LifeActions break_off(const Error& error);
  /// A begun answer cannot come from its worker any more: moves it, or breaks it off with the error.
  [[nodiscard]] LifeActions move_or_break_off(AttemptFailure failure, std::string_view problem, const Error& error);

  TimePoint deadline_;
  bool repeatable_ = true;
  RequestScope scope_ = RequestScope::kOwnModel;
  routing::Decision decision_;
  Phase phase_ = Phase::kWaiting;
  Phase left_ = Phase::kWaiting;  // the phase before a question about leaving the worker
  AttemptFailure failure_ = AttemptFailure::kTransport;
  bool begun_ = false;
  bool attempt_begun_ = false;
  std::optional<Loss> lost_;  // that came to be known while another worker was asked for
  std::optional<std::uint32_t> resumable_;
  Error broken_;  // what the client is told if a begun answer, or one that is too large, finds no other worker
  bool error_frame_ = false;
  bool too_large_ = false;       // an attempt's answer was
  std::uint32_t exhausted_ = 0;  // how often a call could not be made
  int status_ = 0;
};

/// Passes the report of `actions` to the dispatcher. Returns the next worker if they ask for one and there is one.
[[nodiscard]] std::optional<routing::Decision> next_worker(const LifeActions& actions, Dispatcher& dispatcher,
                                                           DispatchHandle request, TimePoint now);

}  // namespace kvist::dispatch

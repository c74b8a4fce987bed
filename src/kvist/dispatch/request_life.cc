#include "kvist/dispatch/request_life.h"

#include <fmt/format.h>

#include <utility>

#include "kvist/base/check.h"

namespace kvist::dispatch {
namespace {

constexpr std::string_view kRemovedText = "the worker was removed from the fleet";

}  // namespace

Outcome outcome_of_status(int status) {
  if (status < 400) return Outcome::kCompleted;
  if (failure_of_status(status, RequestScope::kOther) == AttemptFailure::kBackPressure) return Outcome::kBackPressure;
  return status < 500 ? Outcome::kRefused : Outcome::kWorkerError;
}

LifeActions RequestLife::on_routed(const routing::Decision& decision) {
  phase_ = Phase::kWaiting;
  decision_ = decision;
  error_frame_ = false;
  attempt_begun_ = false;
  lost_.reset();
  status_ = 0;
  LifeActions actions;
  actions.attempt = decision;
  return actions;
}

LifeActions RequestLife::ask_for_another(AttemptFailure failure, std::string_view problem) {
  phase_ = Phase::kAsking;
  failure_ = failure;
  LifeActions actions;
  actions.report = LifeReport::kAttemptFailed;
  actions.failure = failure;
  actions.problem = problem;
  // Nothing of a failed attempt can be passed on behind what the client has.
  actions.abandon = begun_;
  if (begun_) actions.resumed_tokens = resumable_.value_or(0);
  // A worker that is full is healthy, and one that refuses a client's key, or has much to say, most probably too.
  if (failure != AttemptFailure::kBackPressure && failure != AttemptFailure::kUnauthorized &&
      failure != AttemptFailure::kNotResumable && failure != AttemptFailure::kTooLarge)
    actions.doubt = decision_.worker;
  return actions;
}

LifeActions RequestLife::on_rerouted(const std::optional<routing::Decision>& decision) {
  if (phase_ != Phase::kAsking) return {};
  if (decision) return on_routed(*decision);
  LifeActions actions;
  const bool may_continue = failure_ == AttemptFailure::kStalled || failure_ == AttemptFailure::kSilent;
  if (begun_ && !may_continue) return break_off(broken_);
  switch (failure_) {
    case AttemptFailure::kStalled:
    case AttemptFailure::kSilent:
      phase_ = left_;  // the worker may continue
      if (const auto lost = std::exchange(lost_, std::nullopt)) return lose(lost->failure, lost->problem, lost->sent);
      return actions;
    case AttemptFailure::kNotResumable:
    case AttemptFailure::kBackPressure:
    case AttemptFailure::kServerError:
    case AttemptFailure::kGarbage:
    case AttemptFailure::kUnauthorized:
    case AttemptFailure::kWrongModel:
    case AttemptFailure::kNoAdapter:
      phase_ = Phase::kPassingOn;
      actions.answer = LifeAnswer::kPassOn;
      return actions;
    // These texts do not name the worker, because its address is for the log and not for clients.
    case AttemptFailure::kTimedOut:
      return end_with({ErrorCode::kDeadlineExceeded, "no worker answered in time"}, Outcome::kTimedOut);
    case AttemptFailure::kTransport:
      return end_with({ErrorCode::kUnavailable, "no worker could answer the request"}, Outcome::kUpstreamFailed);
    case AttemptFailure::kTooLarge:
      return end_with(broken_, Outcome::kWorkerError);
    case AttemptFailure::kRemoved:
      return end_with({ErrorCode::kUnavailable, fmt::format("{}, and no other could answer the request", kRemovedText)},
                      Outcome::kUpstreamFailed);
  }
  return actions;
}

LifeActions RequestLife::on_served_by(WorkerId worker) {
  if (phase_ != Phase::kWaiting || worker == decision_.worker) return {};
  // If no worker has that place, the answer counts as the first worker's.
  left_ = std::exchange(phase_, Phase::kAsking);
  failure_ = AttemptFailure::kSilent;
  LifeActions actions;
  actions.report = LifeReport::kServedBy;
  actions.served_by = worker;
  actions.problem = "the proxy had to give the request to another worker";
  actions.doubt = decision_.worker;
  return actions;
}

LifeActions RequestLife::on_status(int status) {
  if (phase_ != Phase::kWaiting) return {};
  status_ = status;
  phase_ = Phase::kAnswering;
  const auto failure = failure_of_status(status, scope_);
  // A request that was refused was not carried out.
  const bool refused = failure && (*failure == AttemptFailure::kBackPressure ||
                                   *failure == AttemptFailure::kNoAdapter || is_disputed(*failure));
  if (failure && (repeatable_ || refused)) {
    LifeActions actions = ask_for_another(*failure, fmt::format("answered a request with status {}", status));
    // A worker that is shutting down answers so too, and its /health tells which of the two it is.
    constexpr int kServiceUnavailable = 503;
    // A worker whose adapter is gone has a new list of models.
    if (status == kServiceUnavailable || *failure == AttemptFailure::kNoAdapter) actions.doubt = decision_.worker;
    return actions;
  }
  // A refusal is not a part of an answer that was begun.
  if (begun_ && (status < 200 || status >= 300)) return break_off(broken_);
  LifeActions actions;
  actions.answer = LifeAnswer::kPassOn;
  return actions;
}

LifeActions RequestLife::on_not_resumed() {
  if (phase_ != Phase::kWaiting) return {};
  return ask_for_another(AttemptFailure::kNotResumable, "does not go on with answers that others began");
}

LifeActions RequestLife::on_error_frame(std::string_view problem, bool leaving) {
  if (phase_ != Phase::kAnswering || std::exchange(error_frame_, true)) return {};
  const AttemptFailure failure = begun_ && leaving ? AttemptFailure::kTransport : AttemptFailure::kServerError;
  if (!begun_ || !attempt_begun_) return ask_for_another(failure, problem);
  if (resumable_) return move_or_break_off(failure, problem, {ErrorCode::kUnavailable, std::string(problem)});
  LifeActions actions;
  actions.report = LifeReport::kStreamError;
  actions.problem = problem;
  actions.doubt = decision_.worker;
  return actions;
}

LifeActions RequestLife::on_garbage(std::string_view problem) {
  if (phase_ != Phase::kAnswering || attempt_begun_) return {};
  return ask_for_another(AttemptFailure::kGarbage, problem);
}

LifeActions RequestLife::on_lost(bool timed_out, std::string_view problem, bool sent) {
  return lose(timed_out ? AttemptFailure::kTimedOut : AttemptFailure::kTransport, problem, sent);
}

LifeActions RequestLife::lose(AttemptFailure failure, std::string_view problem, bool sent) {
  if (phase_ == Phase::kOver || phase_ == Phase::kAsking) return {};
  const bool timed_out = failure == AttemptFailure::kTimedOut;
  const bool removed = failure == AttemptFailure::kRemoved;
  LifeActions actions;
  if (begun_ && timed_out) {
    // The answer is long or the client slow, and neither is the worker's failure. StallWatch notices a worker that
    // stands still.
    actions = break_off({ErrorCode::kDeadlineExceeded, "the answer took longer than a request may"});
    actions.over = Outcome::kTimedOut;
  } else if (attempt_begun_) {
    const std::string_view text = removed ? kRemovedText : "the worker broke off its answer";
    actions = move_or_break_off(failure, problem, {ErrorCode::kUnavailable, std::string(text)});
  } else if (phase_ == Phase::kPassingOn) {
    // The failure of this attempt was reported already.
    phase_ = Phase::kAsking;
    failure_ = failure;
    actions = on_rerouted(std::nullopt);
  } else if (!begun_ && !repeatable_ && sent) {
    actions = timed_out
                  ? end_with({ErrorCode::kDeadlineExceeded, "the worker did not answer in time"}, Outcome::kTimedOut)
                  : end_with({ErrorCode::kUnavailable,
                              fmt::format("{}; it may have carried the request out, so that it is not repeated",
                                          removed ? kRemovedText : "the worker failed")},
                             Outcome::kUpstreamFailed);
    actions.report = LifeReport::kStreamBroken;
    actions.failure = failure;
    actions.problem = problem;
    actions.doubt = decision_.worker;
  } else {
    actions = ask_for_another(failure, problem);
  }
  actions.abandon = true;
  if (removed) actions.doubt.reset();
  return actions;
}

LifeActions RequestLife::on_exhausted() {
  if (phase_ != Phase::kWaiting) return {};
  const Error error{ErrorCode::kUnavailable, "the gateway has no socket left to reach a worker with; try again later"};
  LifeActions actions;
  if (exhausted_ < kExhaustedTries) {
    actions.again_in = kExhaustedPause * (1U << exhausted_++);
  } else if (begun_) {
    actions = break_off(error);
  } else {
    actions = end_with(error, Outcome::kExhausted);
  }
  return actions;
}

LifeActions RequestLife::on_ended(bool with_error) {
  if (phase_ == Phase::kOver) return {};
  // Garbage may have a good status.
  const bool garbage = phase_ == Phase::kPassingOn && failure_ == AttemptFailure::kGarbage;
  phase_ = Phase::kOver;
  LifeActions actions;
  actions.answer = LifeAnswer::kEnd;
  actions.over = with_error || garbage ? Outcome::kWorkerError : outcome_of_status(status_);
  return actions;
}

LifeActions RequestLife::on_too_large(std::string_view what) {
  if (phase_ == Phase::kOver) return {};
  const Error error{ErrorCode::kCorrupt, std::string(what)};
  LifeActions actions;
  if (begun_) {
    actions = break_off(error);
    actions.over = Outcome::kWorkerError;
  } else if (phase_ != Phase::kAnswering || !repeatable_ || std::exchange(too_large_, true)) {
    actions = end_with(error, Outcome::kWorkerError);
  } else {
    broken_ = error;
    actions = ask_for_another(AttemptFailure::kTooLarge, what);
    actions.abandon = true;
  }
  return actions;
}

LifeActions RequestLife::on_worker_stalled(WorkerId worker, AttemptFailure how) {
  const bool waits = phase_ == Phase::kWaiting || phase_ == Phase::kAnswering;
  // A worker is silent for requests that have nothing of their answers yet. One that has begun is not among them, even
  // if that was found before its first part came.
  const bool may_move = !attempt_begun_ || (resumable_ && how != AttemptFailure::kSilent);
  if (!waits || !may_move || worker != decision_.worker || !repeatable_) return {};
  left_ = std::exchange(phase_, Phase::kAsking);
  failure_ = how;
  LifeActions actions;
  actions.report = LifeReport::kLeave;
  actions.failure = how;
  if (begun_) actions.resumed_tokens = resumable_.value_or(0);
  broken_ = {ErrorCode::kUnavailable, "the worker's answer stood still for too long"};
  return actions;
}

LifeActions RequestLife::on_idle() {
  if (!begun_ || phase_ == Phase::kOver || phase_ == Phase::kAsking) return {};
  return move_or_break_off(AttemptFailure::kTransport, "an answer stood still for too long",
                           {ErrorCode::kUnavailable, "the worker's answer stood still for too long"});
}

LifeActions RequestLife::on_worker_lost(WorkerId worker, bool sent) {
  return lose_worker(worker, {.failure = AttemptFailure::kTransport,
                              .problem = "the worker stands still and answers no health check",
                              .sent = sent});
}

LifeActions RequestLife::on_worker_removed(WorkerId worker, bool sent) {
  return lose_worker(worker, {.failure = AttemptFailure::kRemoved, .problem = "taken out of the fleet", .sent = sent});
}

// With several threads the dispatcher's answer takes a moment. If that says that the request stays, it stays at a
// worker that is gone.
LifeActions RequestLife::lose_worker(WorkerId worker, const Loss& loss) {
  if (worker != decision_.worker) return {};
  if (phase_ == Phase::kAsking) lost_ = loss;
  return lose(loss.failure, loss.problem, loss.sent);
}

LifeActions RequestLife::on_client_gone() {
  if (phase_ == Phase::kOver) return {};
  phase_ = Phase::kOver;
  LifeActions actions;
  actions.abandon = true;
  actions.over = Outcome::kClientGone;
  return actions;
}

LifeActions RequestLife::on_shutdown(const Error& error) {
  if (phase_ == Phase::kOver) return {};
  return begun_ ? break_off(error) : end_with(error, Outcome::kUpstreamFailed);
}

LifeActions RequestLife::end_with(const Error& error, Outcome outcome) {
  phase_ = Phase::kOver;
  LifeActions actions;
  actions.abandon = true;
  actions.answer = LifeAnswer::kError;
  actions.error = error;
  actions.over = outcome;
  return actions;
}

LifeActions RequestLife::move_or_break_off(AttemptFailure failure, std::string_view problem, const Error& error) {
  // What is passed on of a failed attempt is not an answer that can go on elsewhere, and its failure was reported.
  if (resumable_ && phase_ != Phase::kPassingOn) {
    broken_ = error;
    return ask_for_another(failure, problem);
  }
  LifeActions actions = break_off(error);
  actions.report = LifeReport::kStreamBroken;
  actions.failure = failure;
  actions.problem = problem;
  actions.doubt = decision_.worker;
  return actions;
}

LifeActions RequestLife::break_off(const Error& error) {
  phase_ = Phase::kOver;
  LifeActions actions;
  actions.abandon = true;
  actions.answer = LifeAnswer::kBreakOff;
  actions.error = error;
  actions.over = Outcome::kBrokenStream;
  return actions;
}

std::optional<routing::Decision> next_worker(const LifeActions& actions, Dispatcher& dispatcher, DispatchHandle request,
                                             TimePoint now) {
  switch (actions.report) {
    case LifeReport::kNothing:
      break;
    case LifeReport::kStreamBroken:
      dispatcher.on_stream_broken(request, actions.problem, now);
      break;
    case LifeReport::kStreamError:
      dispatcher.on_stream_error(request, actions.problem, now);
      break;
    case LifeReport::kAttemptFailed:
      return dispatcher.on_attempt_failed(request, actions.failure, actions.problem, now, actions.resumed_tokens);
    case LifeReport::kServedBy:
      return dispatcher.on_served_by(request, actions.served_by.value(), actions.problem, now);
    case LifeReport::kLeave:
      return dispatcher.leave(request, actions.failure, now, actions.resumed_tokens);
  }
  return std::nullopt;
}

}  // namespace kvist::dispatch

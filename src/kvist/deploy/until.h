// Waiting with an end: a deadline, a user who may give up, and the processes one waits for.
#pragma once

#include <functional>
#include <stop_token>
#include <string_view>

#include "kvist/base/error.h"
#include "kvist/base/time.h"

namespace kvist::deploy {

/// How long to wait. Every wait of this module ends at the first of: success, `deadline`, `stop`.
struct Until {
  TimePoint deadline;
  std::stop_token stop;

  /// `limit` from now.
  [[nodiscard]] static Until after(Duration limit, std::stop_token stop);
  /// Time left, at most `most` and never below zero.
  [[nodiscard]] Duration left(Duration most) const;
};

/// Sleeps until `when`, or shorter if `stop` is requested. False where it was.
[[nodiscard]] bool sleep_until(TimePoint when, const std::stop_token& stop);

/// Repeats `attempt` until it succeeds. Fails with kDeadlineExceeded, which names `what` and the last error, with
/// kCancelled, or with the error of `alive`, which is asked before each attempt: what has died needs no more waiting.
[[nodiscard]] Result<void> retry_until(const Until& until, std::string_view what,
                                       const std::function<Result<void>()>& alive,
                                       const std::function<Result<void>()>& attempt);

}  // namespace kvist::deploy

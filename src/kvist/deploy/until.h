// Waiting with a deadline and a stop token.
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

/// Sleeps until `when` or until `stop` is requested; returns false in the latter case.
[[nodiscard]] bool sleep_until(TimePoint when, const std::stop_token& stop);

/// Repeats `attempt` until it succeeds. Errors: kDeadlineExceeded, which names `what` and the last error; kCancelled;
/// or the error of `alive`, which is called before each attempt, because waiting for a dead process is pointless.
[[nodiscard]] Result<void> retry_until(const Until& until, std::string_view what,
                                       const std::function<Result<void>()>& alive,
                                       const std::function<Result<void>()>& attempt);

}  // namespace kvist::deploy

#include "kvist/deploy/until.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "kvist/net/event_loop.h"

namespace kvist::deploy {
namespace {

/// Between two attempts: short compared with a process start, long compared with a local call.
constexpr Duration kRetryPause = std::chrono::milliseconds(50);

}  // namespace

Until Until::after(Duration limit, std::stop_token stop) {
  return {net::now() + limit, std::move(stop)};
}

Duration Until::left(Duration most) const {
  return std::clamp(deadline - net::now(), Duration(0), most);
}

bool sleep_until(TimePoint when, const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any changed;
  std::unique_lock lock(mutex);
  const auto never = [] { return false; };
  (void)changed.wait_until(lock, stop, std::chrono::steady_clock::time_point(when.time_since_epoch()), never);
  return !stop.stop_requested();
}

Result<void> retry_until(const Until& until, std::string_view what, const std::function<Result<void>()>& alive,
                         const std::function<Result<void>()>& attempt) {
  while (true) {
    if (until.stop.stop_requested()) return fail(ErrorCode::kCancelled, fmt::format("{}: interrupted", what));
    KVIST_TRY_VOID(alive());
    auto result = attempt();
    if (result) return {};
    if (net::now() >= until.deadline) {
      return fail(ErrorCode::kDeadlineExceeded, fmt::format("{}: not in time: {}", what, result.error().message));
    }
    (void)sleep_until(std::min(net::now() + kRetryPause, until.deadline), until.stop);
  }
}

}  // namespace kvist::deploy

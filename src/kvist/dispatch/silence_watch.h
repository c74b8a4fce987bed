// Decides when a request that waits for its first byte gives its worker up.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "kvist/base/id.h"
#include "kvist/base/time.h"

namespace kvist::dispatch {

/// A worker that is stopped, or behind a network that swallows everything, keeps its connections and says nothing. How
/// long a request may wait there follows from its forecast. But a forecast can be wrong, and a worker that computes a
/// long prompt must keep its requests. So the watch looks for signs of life of the worker: a token or an answer to any
/// request, or a good answer to a health check. A request's patience is kTimesForecast times its forecast time to first
/// token, and at least `least`.
///   - After half of it without a sign of life, the worker's health is to be asked for.
///   - After all of it, and at least a quarter of it after that question, the request is to leave the worker.
/// Each sign of life begins both anew. So a request waits in vain for no longer than its patience, and a worker that
/// shows life keeps its requests, however long they take. Threads: one.
class SilenceWatch {
 public:
  static constexpr double kTimesForecast = 3;

  /// An attempt that waits for the first byte of its answer.
  struct Wait {
    TimePoint began{};
    Duration patience{};
    std::optional<TimePoint> asked = {};  ///< for the worker's health, on behalf of this attempt
  };
  enum class Verdict : std::uint8_t { kWait, kAsk, kLeave };

  SilenceWatch(Duration least, std::size_t workers) : least_(least), workers_(workers) {}

  [[nodiscard]] Wait begin(double forecast_ttft_ms, TimePoint now) const {
    constexpr double kMostMs = 1e9;
    const double ms = std::min(kTimesForecast * forecast_ttft_ms, kMostMs);
    return {.began = now, .patience = std::max(least_, from_milliseconds(ms))};
  }
  /// The worker showed a sign of life.
  void on_life(WorkerId id, TimePoint now) { workers_[id.value()] = {.alive = now}; }

  /// The id belongs to another worker from here on.
  void forget(WorkerId worker) { workers_.at(worker.value()) = {}; }

  /// What is to be done for a request that waits at the worker. To be called several times within `least`. If a request
  /// has to leave and cannot, kLeave is returned again after a quarter of its patience.
  [[nodiscard]] Verdict judge(Wait& wait, WorkerId id, TimePoint now) {
    Worker& worker = workers_.at(id.value());
    const TimePoint since = std::max(wait.began, worker.alive);
    if (wait.asked && worker.alive >= *wait.asked) wait.asked.reset();
    if (now - since < wait.patience / 2) return Verdict::kWait;
    // If this process itself stood still, the question comes late and the worker could not be heard until now.
    if (!wait.asked) {
      wait.asked = now;
      return Verdict::kAsk;
    }
    if (now - since < wait.patience || now - *wait.asked < wait.patience / 4) return Verdict::kWait;
    wait.asked = now;
    worker.silent = true;
    return Verdict::kLeave;
  }
  /// Whether a request was to leave the worker, and there was no sign of life since then.
  [[nodiscard]] bool is_silent(WorkerId worker) const { return workers_.at(worker.value()).silent; }

 private:
  struct Worker {
    TimePoint alive{};
    bool silent = false;
  };

  Duration least_;
  std::vector<Worker> workers_;  // by WorkerId
};

}  // namespace kvist::dispatch

// Notices a worker that stalls: its process is alive and it has work, but its streams bring no tokens.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kvist/base/id.h"
#include "kvist/base/time.h"

namespace kvist::dispatch {

/// Keeps, per worker, when it last showed progress: by a token of any of its answers, or by the arrival of work when it
/// had none. Only streams count as work, because an answer in one piece is silent until its end. Threads: one.
class StallWatch {
 public:
  explicit StallWatch(std::size_t workers) : workers_(workers) {}

  void on_attempt(WorkerId id, TimePoint now) {
    Worker& worker = workers_.at(id.value());
    if (worker.streams++ == 0) worker.alive_at = now;
    ++streams_;
  }
  /// Requires: an on_attempt() for this worker that no on_left() has followed yet.
  void on_left(WorkerId worker) {
    --workers_.at(worker.value()).streams;
    --streams_;
  }
  void on_progress(WorkerId worker, TimePoint now) { workers_[worker.value()].alive_at = now; }

  /// Whether any worker has work.
  [[nodiscard]] bool has_work() const { return streams_ > 0; }
  [[nodiscard]] bool has_work(WorkerId worker) const { return workers_.at(worker.value()).streams > 0; }
  /// How long the worker has had work without progress; 0 without work.
  [[nodiscard]] Duration silence(WorkerId id, TimePoint now) const {
    const Worker& worker = workers_.at(id.value());
    return worker.streams == 0 ? Duration(0) : Duration(now - worker.alive_at);
  }

  /// The silence from which on a worker counts as stalled: several times the expected time of a step and of the queued
  /// prefill. It is at least `least`, because garbage collection, graph capture and a busy machine stop a worker for a
  /// moment.
  [[nodiscard]] static Duration timeout(double step_ms, double prefill_ms, Duration least = std::chrono::seconds(2)) {
    constexpr double kSteps = 20;
    constexpr double kPrefills = 3;
    return std::max(least, from_milliseconds(std::max(kSteps * step_ms, kPrefills * prefill_ms)));
  }
  /// A worker that answers health checks may compute a prompt that is far slower than expected. Only after so many
  /// times the time-out do its requests leave it.
  static constexpr int kTimesIfAlive = 5;

 private:
  struct Worker {
    std::uint32_t streams = 0;
    TimePoint alive_at;
  };
  std::vector<Worker> workers_;  // by WorkerId
  std::size_t streams_ = 0;
};

}  // namespace kvist::dispatch

// Notices a worker that stands still while it has work: its process lives, its streams say nothing.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kvist/base/id.h"
#include "kvist/base/time.h"

namespace kvist::dispatch {

/// Per worker, when it last gave a sign of life: a token of any of its answers, or the moment it was given work when it
/// had none. Only streams count as work, as an answer that comes in one piece is silent until it is whole. Pure; one
/// thread.
class StallWatch {
 public:
  explicit StallWatch(std::size_t workers) : workers_(workers) {}

  void on_attempt(WorkerId id, TimePoint now) {
    Worker& worker = workers_.at(id.value());
    if (worker.streams++ == 0) worker.alive_at = now;
    ++streams_;
  }
  void on_left(WorkerId worker) {
    --workers_.at(worker.value()).streams;
    --streams_;
  }
  void on_progress(WorkerId worker, TimePoint now) { workers_[worker.value()].alive_at = now; }

  /// Any worker has.
  [[nodiscard]] bool has_work() const { return streams_ > 0; }
  [[nodiscard]] bool has_work(WorkerId worker) const { return workers_.at(worker.value()).streams > 0; }
  /// How long it has had work and said nothing; 0 without work.
  [[nodiscard]] Duration silence(WorkerId id, TimePoint now) const {
    const Worker& worker = workers_.at(id.value());
    return worker.streams == 0 ? Duration(0) : Duration(now - worker.alive_at);
  }

  /// From when on silence means a stall: several times what a step and the prompts at hand should take, and never less
  /// than two seconds, as garbage collection, graph capture and a busy machine all stop a worker for a moment.
  [[nodiscard]] static Duration patience(double step_ms, double prefill_ms) {
    constexpr double kLeastMs = 2'000;
    constexpr double kSteps = 20;
    constexpr double kPrefills = 3;
    return from_milliseconds(std::max({kLeastMs, kSteps * step_ms, kPrefills * prefill_ms}));
  }

 private:
  struct Worker {
    std::uint32_t streams = 0;
    TimePoint alive_at;
  };
  std::vector<Worker> workers_;  // by WorkerId
  std::size_t streams_ = 0;
};

}  // namespace kvist::dispatch

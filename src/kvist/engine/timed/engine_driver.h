// Runs the engine's steps on a modelled clock: told the time, it knows no loop, no socket and no thread.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>

#include "kvist/base/error.h"
#include "kvist/base/time.h"
#include "kvist/engine/core.h"
#include "kvist/engine/executor.h"

namespace kvist::engine {

/// Owns engine core and executor. A step ends exactly its duration after it began, whenever poll() is called: a busy
/// engine's next step begins at the modelled end of the one before, so that late calls do not add up and the worker
/// keeps the pace of the GPU it models. Only beyond `max_lateness` it starts over from the present. Used by one thread.
class EngineDriver {
 public:
  static constexpr Duration kMaxLateness = std::chrono::milliseconds(100);

  /// The executor must know how long its steps take (Executor::duration).
  EngineDriver(CoreOptions options, std::unique_ptr<Executor> executor, Duration max_lateness = kMaxLateness);

  /// See Core. A poll() soon after each of these two lets them take effect.
  [[nodiscard]] Result<void> submit(Request request) { return core_.submit(std::move(request)); }
  void abort(RequestId id) { core_.abort(id); }
  [[nodiscard]] bool reset_prefix_cache() { return core_.reset_prefix_cache(); }

  /// Ends the oldest step if its time has come (one step per call, so that each step's tokens leave on their own),
  /// begins what can begin, and returns the news.
  [[nodiscard]] StepOutputs poll(TimePoint now);
  /// When the next step ends; nothing while no step is under way.
  [[nodiscard]] std::optional<TimePoint> next_wakeup() const;

  [[nodiscard]] CoreStats stats() const { return core_.stats(); }
  [[nodiscard]] const Core& core() const { return core_; }
  /// Sum over all steps of how much later than its modelled end each was ended.
  [[nodiscard]] Duration lateness() const { return lateness_; }
  /// How often the modelled clock was given up for the present.
  [[nodiscard]] std::uint64_t resynchronisations() const { return resynchronisations_; }

 private:
  struct StepUnderWay {
    StepPlan plan;
    TimePoint end;
  };

  [[nodiscard]] StepOutputs end_oldest_step(TimePoint now, TimePoint& next_start);
  void begin_steps(TimePoint start);

  std::unique_ptr<Executor> executor_;
  Core core_;
  Duration max_lateness_;
  std::deque<StepUnderWay> under_way_;  // oldest first
  Duration lateness_{};
  std::uint64_t resynchronisations_ = 0;
};

}  // namespace kvist::engine

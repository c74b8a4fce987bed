// Runs the engine's steps on a modelled clock: told the time, it knows no loop, no socket and no thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/time.h"
#include "kvist/engine/core.h"
#include "kvist/engine/driver.h"
#include "kvist/engine/executor.h"
#include "kvist/engine/speculation.h"
#include "kvist/perfmodel/step_time_model.h"

namespace kvist::engine {

/// Owns engine core and executor. A step ends exactly its duration after it began, whenever poll() is called: a busy
/// engine's next step begins at the modelled end of the one before, so that late calls do not add up and the worker
/// keeps the pace of the GPU it models. Only beyond `max_lateness` it starts over from the present.
///
/// A request reaches the engine's queue some time after its arrival (front end, tokenizing, host), in the order of
/// arrival; until then it is held here and counts as waiting. Used by one thread.
class EngineDriver final : public Driver {
 public:
  static constexpr Duration kMaxLateness = std::chrono::milliseconds(100);

  struct Options {
    Duration max_lateness = kMaxLateness;
    /// From a request's arrival to its place in the engine's queue; none: no time. Durations are those of this driver's
    /// clock, faster by time_scale than the model's.
    std::function<Duration(const perfmodel::IntakeLoad&)> intake_delay = {};
    std::unique_ptr<SpeculationPolicy> speculation = {};  ///< null: no drafts
  };

  /// The executor must know how long its steps take (Executor::duration).
  EngineDriver(CoreOptions options, std::unique_ptr<Executor> executor, Options driver);
  EngineDriver(CoreOptions options, std::unique_ptr<Executor> executor)
      : EngineDriver(std::move(options), std::move(executor), Options()) {}

  /// See Core::submit(). A poll() soon after each of these three lets them take effect.
  [[nodiscard]] Result<void> submit(Request request, TimePoint now) override;
  void abort(RequestId id) override;
  [[nodiscard]] bool reset_prefix_cache() override { return core_.reset_prefix_cache(); }

  /// Ends the oldest step if its time has come (one step per call, so that each step's tokens leave on their own),
  /// begins what can begin, and puts the news into `outputs`, whose content is replaced and whose memory is used again.
  void poll(TimePoint now, StepOutputs& outputs) override;
  /// The same, into memory of its own.
  [[nodiscard]] StepOutputs poll(TimePoint now);
  /// When poll() has something to do next: the end of a step, or a request that reaches the queue of an engine which
  /// could begin a step. Nothing while neither is under way.
  [[nodiscard]] std::optional<TimePoint> next_wakeup() const override;
  /// All it does is a matter of time.
  void set_wake(std::function<void()> /*wake*/) override {}

  /// When the oldest step under way ends; nothing while none is.
  [[nodiscard]] std::optional<TimePoint> step_end() const {
    return under_way_.empty() ? std::nullopt : std::optional(under_way_.front().end);
  }

  [[nodiscard]] CoreStats stats() const override;
  [[nodiscard]] const Core& core() const override { return core_; }
  [[nodiscard]] DriverTimes times() const override {
    return {.busy = busy_, .lateness = lateness_, .resynchronisations = resynchronisations_};
  }

 private:
  struct StepUnderWay {
    StepPlan plan;
    TimePoint end;
  };
  struct Arrival {
    Request request;
    TimePoint queued;  // when it reaches the engine's queue
  };

  [[nodiscard]] Duration intake_delay(const Request& request) const;
  [[nodiscard]] TimePoint start_after(TimePoint event, TimePoint now);
  void end_oldest_step(StepOutputs& outputs);
  void take_in(TimePoint until);
  void begin_steps(TimePoint start);

  std::unique_ptr<Executor> executor_;
  std::uint32_t max_steps_in_flight_;
  Core core_;
  Duration max_lateness_;
  std::function<Duration(const perfmodel::IntakeLoad&)> intake_delay_;
  Duration last_decode_step_{};         // of the latest step without prefill that has begun
  std::deque<Arrival> arrivals_;        // by time, which is the order of submission
  std::deque<StepUnderWay> under_way_;  // oldest first
  std::vector<StepPlan> spare_plans_;   // for their memory
  StepResult result_;                   // likewise
  Duration busy_{};
  Duration lateness_{};
  std::uint64_t resynchronisations_ = 0;
};

}  // namespace kvist::engine

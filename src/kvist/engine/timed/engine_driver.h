// Runs the engine's steps on a modelled clock. It gets the time as an argument and has no loop, socket or thread.
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

/// What a driver has under way at one instant. It refers to the driver and is valid until the next call that changes
/// something.
struct DriverView {
  struct Step {
    const StepPlan* plan = nullptr;
    TimePoint end;
  };
  struct Arrival {
    const Request* request = nullptr;
    TimePoint queued;  ///< when it reaches the engine's queue
  };
  CoreView core;
  std::vector<Step> steps;        ///< oldest first
  std::vector<Arrival> arrivals;  ///< on their way to the queue, in order
  Duration last_decode_step{};    ///< perfmodel::IntakeLoad has it
};

/// Owns engine core and executor. A step ends exactly its duration after it began, independent of when poll() is
/// called. A busy engine's next step begins at the modelled end of the one before, so that late calls do not accumulate
/// and the worker keeps the pace of the modelled GPU. Only beyond `max_lateness` is the clock set to the present.
///
/// A request reaches the engine's queue some time after its arrival (front end, tokenizing, host), in the order of
/// arrival. Until then it is held here and counts as waiting. Threads: one.
class EngineDriver final : public Driver {
 public:
  static constexpr Duration kMaxLateness = std::chrono::milliseconds(100);

  struct Options {
    Duration max_lateness = kMaxLateness;
    /// The time from a request's arrival to the engine's queue; none: no time. Durations are on this driver's clock,
    /// which is faster than the model's by time_scale.
    std::function<Duration(const perfmodel::IntakeLoad&)> intake_delay = {};
    std::unique_ptr<SpeculationPolicy> speculation = {};  ///< null: no drafts
  };

  /// Requires: the executor has a modelled duration (Executor::duration).
  EngineDriver(CoreOptions options, std::unique_ptr<Executor> executor, Options driver);
  EngineDriver(CoreOptions options, std::unique_ptr<Executor> executor)
      : EngineDriver(std::move(options), std::move(executor), Options()) {}

  /// See Core::submit(). The effect of this and the next two becomes visible by a poll() after them.
  [[nodiscard]] Result<void> submit(Request request, TimePoint now) override;
  void abort(RequestId id) override;
  [[nodiscard]] bool reset_prefix_cache() override { return core_.reset_prefix_cache(); }

  // How an engine changes while it runs: for the steps to come.
  /// They take so many times as long as modelled.
  void set_slowness(double factor) { slowness_ = factor; }
  void set_max_num_tokens(std::uint32_t tokens) { core_.set_max_num_tokens(tokens); }

  /// Ends the oldest step if its time is over (one step per call, so that each step's tokens are sent separately) and
  /// begins what can begin. Replaces the content of `outputs` and reuses its memory.
  void poll(TimePoint now, StepOutputs& outputs) override;
  /// Like the other poll(), but returns new memory.
  [[nodiscard]] StepOutputs poll(TimePoint now);
  /// When poll() has something to do next: at the end of a step, or when a request reaches the queue and a step could
  /// begin. Nothing if there is neither.
  [[nodiscard]] std::optional<TimePoint> next_wakeup() const override;
  /// Not needed, because everything that poll() does depends on time.
  void set_wake(std::function<void()> /*wake*/) override {}

  /// When the oldest step under way ends; nothing if there is none.
  [[nodiscard]] std::optional<TimePoint> step_end() const {
    return under_way_.empty() ? std::nullopt : std::optional(under_way_.front().end);
  }

  /// Replaces the content of `view` and reuses its memory.
  void look(DriverView& view);
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
  double slowness_ = 1;
  std::function<Duration(const perfmodel::IntakeLoad&)> intake_delay_;
  Duration last_decode_step_{};         // of the last begun step without prefill
  std::deque<Arrival> arrivals_;        // by time, which is the order of submission
  std::deque<StepUnderWay> under_way_;  // oldest first
  std::vector<StepPlan> spare_plans_;   // kept to reuse their memory
  StepResult result_;                   // likewise
  Duration busy_{};
  Duration lateness_{};
  std::uint64_t resynchronisations_ = 0;
};

}  // namespace kvist::engine

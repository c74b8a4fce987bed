// Runs the steps of an executor that computes on a thread of its own.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "kvist/engine/driver.h"
#include "kvist/engine/speculation.h"

namespace kvist::engine::cpu {

/// Drives the core on the caller's thread and computes each step on the device thread, one at a time. Requests that are
/// added or aborted during a step take effect when it has ended. The wake callback reports the end of a step; poll()
/// then ends it and begins the next.
///
/// Threads: all calls from one thread. Executor::finish() runs on the device thread; between the hand-over of a plan
/// and the wake, the core's thread leaves plan, result and the blocks of its sequences alone, and calls on_release()
/// only for slots that are not in the plan.
class DeviceDriver final : public Driver {
 public:
  /// Observes the result and the duration of every step. Called on the caller's thread.
  using StepObserver = std::function<void(const StepPlan&, const StepResult&, Duration)>;

  /// `executor` computes in finish() (its duration() says nothing). Without `speculation`, no tokens are drafted.
  DeviceDriver(CoreOptions options, std::unique_ptr<Executor> executor,
               std::unique_ptr<SpeculationPolicy> speculation = nullptr, StepObserver observer = {});
  /// Waits for the step under way.
  ~DeviceDriver() override;
  DeviceDriver(const DeviceDriver&) = delete;
  DeviceDriver& operator=(const DeviceDriver&) = delete;

  [[nodiscard]] Result<void> submit(Request request, TimePoint now) override;
  void abort(RequestId id) override { core_.abort(id); }
  [[nodiscard]] bool reset_prefix_cache() override { return core_.reset_prefix_cache(); }
  void poll(TimePoint now, StepOutputs& outputs) override;
  /// Not known in advance: the wake callback reports the end of a step.
  [[nodiscard]] std::optional<TimePoint> next_wakeup() const override { return std::nullopt; }
  void set_wake(std::function<void()> wake) override;

  [[nodiscard]] CoreStats stats() const override { return core_.stats(); }
  [[nodiscard]] const Core& core() const override { return core_; }
  [[nodiscard]] DriverTimes times() const override { return {.busy = busy_}; }

 private:
  enum class Step { kNone, kHandedOver, kComputed };

  void compute_steps();
  [[nodiscard]] bool take_computed();

  std::unique_ptr<Executor> executor_;
  Core core_;
  StepObserver observer_;
  Duration busy_{};

  std::mutex mutex_;
  std::condition_variable changed_;
  Step step_ = Step::kNone;  // guarded by the mutex, like the next three
  bool stopping_ = false;
  Duration took_{};
  std::function<void()> wake_;
  // Owned by the caller's thread, but by the device thread from kHandedOver to kComputed.
  StepPlan plan_;
  StepResult result_;
  std::thread device_;  // last: it uses everything above
};

}  // namespace kvist::engine::cpu

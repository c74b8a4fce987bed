#include "kvist/engine/cpu/device_driver.h"

#include <chrono>
#include <utility>

namespace kvist::engine::cpu {

DeviceDriver::DeviceDriver(CoreOptions options, std::unique_ptr<Executor> executor,
                           std::unique_ptr<SpeculationPolicy> speculation, StepObserver observer)
    : executor_(std::move(executor)),
      core_(std::move(options), *executor_, std::move(speculation)),
      observer_(std::move(observer)),
      device_([this] { compute_steps(); }) {}

DeviceDriver::~DeviceDriver() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  device_.join();
}

Result<void> DeviceDriver::submit(Request request, TimePoint /*now*/) {
  return core_.submit(std::move(request));
}

void DeviceDriver::set_wake(std::function<void()> wake) {
  const std::scoped_lock lock(mutex_);
  wake_ = std::move(wake);
}

bool DeviceDriver::take_computed() {
  const std::scoped_lock lock(mutex_);
  if (step_ != Step::kComputed) return false;
  step_ = Step::kNone;
  busy_ += took_;
  return true;
}

void DeviceDriver::poll(TimePoint now, StepOutputs& outputs) {
  if (take_computed()) {
    core_.end_step(plan_, result_, outputs);
    if (observer_) observer_(plan_, result_, took_);
  } else {
    core_.take_outputs(outputs);
    // The device thread owns the plan: new requests wait for the end of the step.
    const std::scoped_lock lock(mutex_);
    if (step_ != Step::kNone) return;
  }
  if (!core_.begin_step(now, plan_)) return;
  {
    const std::scoped_lock lock(mutex_);
    step_ = Step::kHandedOver;
  }
  changed_.notify_one();
}

void DeviceDriver::compute_steps() {
  using Clock = std::chrono::steady_clock;
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopping_ || step_ == Step::kHandedOver; });
    if (step_ != Step::kHandedOver) return;  // stopping, and nothing left to compute
    lock.unlock();
    const Clock::time_point begin = Clock::now();
    executor_->finish(plan_, result_);
    const auto took = std::chrono::duration_cast<Duration>(Clock::now() - begin);
    lock.lock();
    took_ = took;
    step_ = Step::kComputed;
    const std::function<void()> wake = wake_;
    lock.unlock();
    if (wake) wake();
    lock.lock();
  }
}

}  // namespace kvist::engine::cpu

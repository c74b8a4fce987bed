#include "kvist/engine/timed/engine_driver.h"

#include <algorithm>
#include <utility>

#include "kvist/base/check.h"

namespace kvist::engine {

EngineDriver::EngineDriver(CoreOptions options, std::unique_ptr<Executor> executor, Duration max_lateness)
    : executor_(std::move(executor)), core_(std::move(options), *executor_), max_lateness_(max_lateness) {}

StepOutputs EngineDriver::poll(TimePoint now) {
  TimePoint next_start = now;
  const bool due = !under_way_.empty() && under_way_.front().end <= now;
  StepOutputs outputs = due ? end_oldest_step(now, next_start) : core_.take_outputs();
  begin_steps(next_start);
  return outputs;
}

StepOutputs EngineDriver::end_oldest_step(TimePoint now, TimePoint& next_start) {
  const StepUnderWay step = std::move(under_way_.front());
  under_way_.pop_front();
  const Duration late = now - step.end;
  lateness_ += late;
  if (late <= max_lateness_) {
    next_start = step.end;
  } else {
    next_start = now;
    ++resynchronisations_;
  }
  return core_.end_step(step.plan, executor_->finish(step.plan), step.end);
}

void EngineDriver::begin_steps(TimePoint start) {
  while (true) {
    // The device computes one step after the other, also when several are under way.
    if (!under_way_.empty()) start = std::max(start, under_way_.back().end);
    std::optional<StepPlan> plan = core_.begin_step(start);
    if (!plan) return;
    const std::optional<Duration> duration = executor_->duration(*plan);
    KVIST_CHECK(duration && *duration >= Duration::zero(), "this driver needs an executor that knows its durations");
    under_way_.push_back({.plan = std::move(*plan), .end = start + *duration});
  }
}

std::optional<TimePoint> EngineDriver::next_wakeup() const {
  if (under_way_.empty()) return std::nullopt;
  return under_way_.front().end;
}

}  // namespace kvist::engine

#include "kvist/engine/timed/engine_driver.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "kvist/base/check.h"

namespace kvist::engine {

EngineDriver::EngineDriver(CoreOptions options, std::unique_ptr<Executor> executor, Options driver)
    : executor_(std::move(executor)),
      max_steps_in_flight_(options.max_steps_in_flight),
      core_(std::move(options), *executor_, std::move(driver.speculation)),
      max_lateness_(driver.max_lateness),
      intake_delay_(std::move(driver.intake_delay)) {}

Result<void> EngineDriver::submit(Request request, TimePoint now) {
  KVIST_TRY_VOID(core_.check(request, static_cast<std::uint32_t>(arrivals_.size())));
  if (std::ranges::any_of(arrivals_, [&](const Arrival& arrival) { return arrival.request.id == request.id; })) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("request id {} is in use", request.id.value()));
  }
  TimePoint queued = now + intake_delay(request);
  if (!arrivals_.empty()) queued = std::max(queued, arrivals_.back().queued);
  if (queued <= now) {
    core_.enqueue(std::move(request));
  } else {
    arrivals_.push_back({.request = std::move(request), .queued = queued});
  }
  return {};
}

Duration EngineDriver::intake_delay(const Request& request) const {
  if (!intake_delay_) return Duration::zero();
  return intake_delay_({.running = core_.running(),
                        .last_decode_step = last_decode_step_,
                        .prompt_tokens = request.prompt_tokens(),
                        .seed = request.seed});
}

void EngineDriver::abort(RequestId id) {
  const auto arrival = std::ranges::find_if(arrivals_, [id](const Arrival& a) { return a.request.id == id; });
  if (arrival != arrivals_.end()) {
    // From here on the core handles it like any waiting request.
    core_.enqueue(std::move(arrival->request));
    arrivals_.erase(arrival);
  }
  core_.abort(id);
}

StepOutputs EngineDriver::poll(TimePoint now) {
  StepOutputs outputs;
  poll(now, outputs);
  return outputs;
}

void EngineDriver::poll(TimePoint now, StepOutputs& outputs) {
  TimePoint start = now;
  if (!under_way_.empty() && under_way_.front().end <= now) {
    const TimePoint end = under_way_.front().end;
    lateness_ += now - end;
    start = start_after(end, now);
    end_oldest_step(outputs);
  } else {
    if (under_way_.empty() && !arrivals_.empty() && arrivals_.front().queued <= now) {
      start = start_after(arrivals_.front().queued, now);
    }
    core_.take_outputs(outputs);
  }
  take_in(start);
  begin_steps(start);
}

// A step that follows an event of the modelled clock begins at the event's modelled time, unless that is too long ago.
TimePoint EngineDriver::start_after(TimePoint event, TimePoint now) {
  if (now - event <= max_lateness_) return event;
  ++resynchronisations_;
  return now;
}

void EngineDriver::end_oldest_step(StepOutputs& outputs) {
  StepUnderWay step = std::move(under_way_.front());
  under_way_.pop_front();
  executor_->finish(step.plan, result_);
  core_.end_step(step.plan, result_, outputs);
  spare_plans_.push_back(std::move(step.plan));
}

void EngineDriver::take_in(TimePoint until) {
  while (!arrivals_.empty() && arrivals_.front().queued <= until) {
    core_.enqueue(std::move(arrivals_.front().request));
    arrivals_.pop_front();
  }
}

void EngineDriver::begin_steps(TimePoint start) {
  while (under_way_.size() < max_steps_in_flight_) {
    // The device computes one step after the other, even if several are under way.
    if (!under_way_.empty()) start = std::max(start, under_way_.back().end);
    if (spare_plans_.empty()) spare_plans_.emplace_back();
    if (!core_.begin_step(start, spare_plans_.back())) return;
    std::optional<Duration> duration = executor_->duration(spare_plans_.back());
    if (duration && slowness_ != 1)
      duration = Duration(std::llround(static_cast<double>(duration->count()) * slowness_));
    KVIST_CHECK(duration && *duration >= Duration::zero(), "this driver needs an executor that knows its durations");
    busy_ += *duration;
    if (spare_plans_.back().load.prefill_tokens == 0) last_decode_step_ = *duration;
    under_way_.push_back({.plan = std::move(spare_plans_.back()), .end = start + *duration});
    spare_plans_.pop_back();
  }
}

std::optional<TimePoint> EngineDriver::next_wakeup() const {
  std::optional<TimePoint> next;
  if (!under_way_.empty()) next = under_way_.front().end;
  // If no further step can begin, requests that reach the queue are handled when the next step ends.
  if (!arrivals_.empty() && under_way_.size() < max_steps_in_flight_) {
    next = std::min(next.value_or(TimePoint::max()), arrivals_.front().queued);
  }
  return next;
}

void EngineDriver::look(DriverView& view) {
  core_.look(view.core);
  view.steps.clear();
  for (const StepUnderWay& step : under_way_) view.steps.push_back({.plan = &step.plan, .end = step.end});
  view.arrivals.clear();
  for (const Arrival& arrival : arrivals_) {
    view.arrivals.push_back({.request = &arrival.request, .queued = arrival.queued});
  }
  view.last_decode_step = last_decode_step_;
}

CoreStats EngineDriver::stats() const {
  CoreStats stats = core_.stats();
  stats.waiting += static_cast<std::uint32_t>(arrivals_.size());
  for (const Arrival& arrival : arrivals_) stats.prefill_backlog_tokens += arrival.request.prompt_tokens();
  return stats;
}

}  // namespace kvist::engine

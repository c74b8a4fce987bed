#include "kvist/loadgen/loop_monitor.h"

#include <sys/resource.h>

#include <algorithm>

namespace kvist::loadgen {
namespace {

constexpr Duration kPeriod = std::chrono::milliseconds(10);
/// A machine may be suspended for hours. More missed ticks than these make no difference.
constexpr int kMaxSwallowedTicks = 12'000;

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

}  // namespace

double process_cpu_seconds() {
  rusage usage{};
  if (getrusage(RUSAGE_SELF, &usage) != 0) return 0;
  return seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
}

void LoopMonitor::start() {
  delays_ = {};
  stalls_ = 0;
  stalled_ = {};
  host_.start();
  if (watches_pauses_) pauses_.start();
  cpu_seconds_at_start_ = process_cpu_seconds();
  watching_ = true;
  arm(net::now() + kPeriod);
}

void LoopMonitor::stop() {
  if (!watching_) return;
  at_stop_ = measure();
  pauses_.stop();
  watching_ = false;
  timer_.cancel();
}

ClientLoad LoopMonitor::load() const {
  return watching_ ? measure() : at_stop_;
}

ClientLoad LoopMonitor::measure() const {
  return {.loop_delay_p99_ms = to_milliseconds(delays_.quantile(0.99)),
          .loop_delay_max_ms = to_milliseconds(delays_.max()),
          .loop_stalls = stalls_,
          .loop_stalled_ms = to_milliseconds(stalled_),
          .cpu_seconds = process_cpu_seconds() - cpu_seconds_at_start_,
          .run_queue_seconds = host_.run_queue_seconds(),
          .steal_share = host_.steal_share(),
          .pauses = pauses_.pauses(),
          .refused_starts = {}};
}

void LoopMonitor::record_tick(DelayHistogram& delays, Duration late) {
  delays.record(late);
  int swallowed = 0;
  for (Duration missed = late - kPeriod; missed > Duration::zero() && swallowed < kMaxSwallowedTicks;
       missed -= kPeriod) {
    delays.record(missed);
    ++swallowed;
  }
}

void LoopMonitor::arm(TimePoint due) {
  timer_.arm(due, [this, due] {
    const TimePoint now = net::now();
    record_tick(delays_, now - due);
    if (now - due >= kPeriod) {
      ++stalls_;
      stalled_ += now - due;
    }
    // Arms the next tick of the same schedule. The ticks that a stall has missed are recorded already.
    arm(std::max(due, now - (now - due) % kPeriod) + kPeriod);
  });
}

}  // namespace kvist::loadgen

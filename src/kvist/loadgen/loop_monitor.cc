#include "kvist/loadgen/loop_monitor.h"

#include <sys/resource.h>

#include <algorithm>
#include <cmath>

namespace kvist::loadgen {
namespace {

// Of the histogram's buckets.
constexpr double kFirstBoundNs = 1000;
constexpr double kGrowth = 1.05;

constexpr Duration kPeriod = std::chrono::milliseconds(10);
/// A machine may be suspended for hours. More missed ticks than these make no difference.
constexpr int kMaxSwallowedTicks = 12'000;

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

}  // namespace

void DelayHistogram::record(Duration delay) {
  const double ns = std::max(static_cast<double>(delay.count()), kFirstBoundNs);
  const auto bucket = static_cast<std::size_t>(std::ceil(std::log(ns / kFirstBoundNs) / std::log(kGrowth)));
  ++counts_[std::min(bucket, kBuckets - 1)];
  ++count_;
  max_ = std::max(max_, delay);
}

Duration DelayHistogram::quantile(double q) const {
  if (count_ == 0) return {};
  const double rank = q * static_cast<double>(count_);
  std::uint64_t seen = 0;
  for (std::size_t bucket = 0; bucket < kBuckets - 1; ++bucket) {
    seen += counts_[bucket];
    if (seen > 0 && static_cast<double>(seen) >= rank) {
      const double bound_ns = kFirstBoundNs * std::pow(kGrowth, static_cast<double>(bucket));
      return std::min(max_, from_seconds(bound_ns * 1e-9));
    }
  }
  return max_;
}

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
  cpu_seconds_at_start_ = process_cpu_seconds();
  watching_ = true;
  arm(net::now() + kPeriod);
}

void LoopMonitor::stop() {
  if (!watching_) return;
  at_stop_ = measure();
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

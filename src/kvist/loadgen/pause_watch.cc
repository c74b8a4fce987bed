#include "kvist/loadgen/pause_watch.h"

#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <system_error>
#include <vector>

#include "kvist/loadgen/host_load.h"

namespace kvist::loadgen {
namespace {

/// Not a multiple of a hypervisor's own time slices, which are whole milliseconds.
constexpr Duration kPausePeriod = std::chrono::microseconds(3'700);
/// Wake-ups on one processor before the next one is watched: 100 ms.
constexpr int kWakeUpsOnOne = 27;
/// A machine may be suspended for hours. More missed deadlines than these make no difference.
constexpr std::uint64_t kMaxMissedDeadlines = 20'000;

Duration read_clock(clockid_t clock) {
  timespec time{};
  (void)clock_gettime(clock, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

void sleep_to(Duration due) {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(due);
  const timespec time{.tv_sec = seconds.count(), .tv_nsec = static_cast<long>((due - seconds).count())};
  // Interrupted by a signal, it wakes early, which is not late.
  (void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, nullptr);
}

/// The processors that this thread may run on, and moving it to one of them.
class AllowedProcessors {
 public:
  AllowedProcessors() {
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;  // more than CPU_SETSIZE: it stays where it is put
    for (std::size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &allowed)) cpus_.push_back(cpu);
    }
  }

  void move_on() {
    if (cpus_.size() < 2) return;
    next_ = (next_ + 1) % cpus_.size();
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpus_[next_], &one);
    (void)sched_setaffinity(0, sizeof one, &one);  // a processor that has gone meanwhile is left out
  }

 private:
  std::vector<std::size_t> cpus_;
  std::size_t next_ = 0;
};

bool take_highest_priority() {
  (void)prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
  const sched_param lowest{.sched_priority = sched_get_priority_min(SCHED_FIFO)};
  return pthread_setschedparam(pthread_self(), SCHED_FIFO, &lowest) == 0;
}

}  // namespace

std::uint64_t record_wake_up(WatchedPauses& watched, Duration late, std::optional<Duration> stolen, Duration period) {
  const Duration pause = stolen ? std::min(late, std::max(*stolen, Duration::zero())) : late;
  if (pause > kLeastPause) ++watched.pauses;
  // The pause is what ended at the wake-up. Deadlines before it found something else.
  std::uint64_t missed = 0;
  watched.late.record(pause);
  for (Duration since = late - period; since >= Duration::zero() && missed < kMaxMissedDeadlines; since -= period) {
    watched.late.record(since <= pause ? since : Duration::zero());
    ++missed;
  }
  return missed;
}

void PauseWatch::start() {
  stop();
  watched_ = {};
  started_ = false;
  try {
    thread_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
    started_ = true;
  } catch (const std::system_error&) {
    // As many threads as the system allows: nobody watches, and pauses() says so.
  }
}

void PauseWatch::stop() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  thread_.join();
}

std::optional<WatchedPauses> PauseWatch::pauses() const {
  if (!started_) return std::nullopt;
  const std::scoped_lock lock(mutex_);
  return watched_;
}

void PauseWatch::watch(const std::stop_token& stop) {
  const bool real_time = take_highest_priority();
  AllowedProcessors processors;
  std::optional<Duration> stolen_before = stolen_time();
  Duration due = read_clock(CLOCK_MONOTONIC);
  for (int wake_ups = 0; !stop.stop_requested();) {
    due += kPausePeriod;
    sleep_to(due);
    const Duration late = read_clock(CLOCK_MONOTONIC) - due;
    // The system counts in whole ticks, so that it is asked only where more is in question.
    std::optional<Duration> stolen;
    const bool is_long = late > clock_tick();
    if (is_long || ++wake_ups >= kWakeUpsOnOne) {
      const std::optional<Duration> stolen_now = stolen_time();
      if (is_long && stolen_now && stolen_before) stolen = *stolen_now - *stolen_before + clock_tick();
      stolen_before = stolen_now;
    }
    std::uint64_t missed = 0;
    {
      const std::scoped_lock lock(mutex_);
      missed = record_wake_up(watched_, late, stolen, kPausePeriod);
      watched_.real_time = real_time;
      watched_.cpu_seconds = to_seconds(read_clock(CLOCK_THREAD_CPUTIME_ID));
    }
    due += missed * kPausePeriod;
    if (wake_ups >= kWakeUpsOnOne) {
      wake_ups = 0;
      processors.move_on();
    }
  }
}

}  // namespace kvist::loadgen

// Measures for how long processors run nothing at all, because a hypervisor has given them to others.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <thread>

#include "kvist/base/time.h"
#include "kvist/loadgen/delay_histogram.h"

namespace kvist::loadgen {

/// How late the watcher woke, which is what a packet that came at a random instant would have waited for to be noticed.
struct WatchedPauses {
  DelayHistogram late;       ///< of deadlines at equal distances, those within a pause included
  std::uint64_t pauses = 0;  ///< wake-ups that were later than kLeastPause
  /// The watcher came before everything else that wanted its processor. If not, its own waiting for one counts.
  bool real_time = false;
  double cpu_seconds = 0;  ///< what the watching cost
};

/// What a wake-up costs without any pause is shorter: some 50 us on a virtual machine.
inline constexpr Duration kLeastPause = std::chrono::microseconds(250);

/// Records the lateness of one wake-up, and of the deadlines that went by within it. What made it late was a hypervisor
/// for at most `stolen` (nothing: not known); the rest is something else, such as SIGSTOP, which is not the processor's
/// pause. Returns how many deadlines went by.
std::uint64_t record_wake_up(WatchedPauses& watched, Duration late, std::optional<Duration> stolen, Duration period);

/// A thread that sleeps to deadlines of a few milliseconds, on each of its processors in turn, with the highest
/// priority that it gets. It costs about 1 % of a core on a virtual machine, where each wake-up is an exit to the
/// hypervisor. Threads: the caller's for all functions.
class PauseWatch {
 public:
  PauseWatch() = default;
  ~PauseWatch() { stop(); }
  PauseWatch(const PauseWatch&) = delete;
  PauseWatch& operator=(const PauseWatch&) = delete;

  /// Forgets everything and watches from now on.
  void start();
  /// Ends the thread, which takes one period.
  void stop();
  /// Since start(). Nothing before that, or if the thread could not be made.
  [[nodiscard]] std::optional<WatchedPauses> pauses() const;

 private:
  void watch(const std::stop_token& stop);

  mutable std::mutex mutex_;
  WatchedPauses watched_;  // guarded by mutex_
  bool started_ = false;
  std::jthread thread_;
};

}  // namespace kvist::loadgen

// Waiting for another thread that is about to be done.
#pragma once

#include <thread>

namespace kvist::simulation {

/// Waits without sleeping: the other thread computes for some microseconds, in which going to sleep and waking up would
/// take longer. Where it does not run at all, because the machine has no core for it, it is let run.
class Spin {
 public:
  /// So many looks take some hundred microseconds.
  static constexpr int kLooks = 4'096;

  /// Returns whether it was one look of many, and not one that let other threads run.
  bool wait() {
    if (++looks_ % kLooks == 0) {
      std::this_thread::yield();
      return false;
    }
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
    return true;
  }

 private:
  int looks_ = 0;
};

}  // namespace kvist::simulation

// Threads that compute one stage of a step together.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

namespace kvist::engine::cpu {

/// A part of [0, n).
struct Range {
  std::size_t begin = 0;
  std::size_t end = 0;
  [[nodiscard]] std::size_t size() const { return end - begin; }
};

/// The part of [0, n) of thread `thread` of `threads`: as even as can be, in order.
[[nodiscard]] constexpr Range part_of(std::size_t n, std::size_t thread, std::size_t threads) {
  const std::size_t each = n / threads;
  const std::size_t more = n % threads;
  const std::size_t begin = thread * each + (thread < more ? thread : more);
  return {begin, begin + each + (thread < more ? 1 : 0)};
}

/// A fixed set of threads: the one that calls run() and threads() - 1 others. One fork and join per run(). Between two
/// runs the others spin for some microseconds, then sleep, so that an idle worker uses no CPU. Threads: run() by one
/// thread at a time, never from within a run().
class ThreadPool {
 public:
  /// Requires: threads >= 1. `pin` binds each thread but the caller's to one of the CPUs this process may use, where
  /// the system allows it: for a process that has the machine to itself.
  explicit ThreadPool(unsigned threads, bool pin = false);
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  ~ThreadPool();

  [[nodiscard]] unsigned threads() const { return static_cast<unsigned>(others_.size()) + 1; }

  /// Calls work(thread) once for each thread number below threads(), concurrently, and returns when all have returned.
  /// Their writes are visible to the caller. Requires: `work` does not throw.
  template <class Work>
  void run(Work&& work) {
    using Plain = std::remove_reference_t<Work>;
    run_all([](void* context, unsigned thread) { (*static_cast<Plain*>(context))(thread); },
            const_cast<void*>(static_cast<const void*>(std::addressof(work))));
  }

 private:
  using Call = void (*)(void* context, unsigned thread);

  void run_all(Call call, void* context);
  void serve(unsigned thread);

  std::vector<std::thread> others_;
  Call call_ = nullptr;
  void* context_ = nullptr;
  int spins_ = 0;
  // On cache lines of their own: every thread polls them.
  alignas(64) std::atomic<std::uint32_t> round_{0};  // counts runs; the end of the pool is one more
  alignas(64) std::atomic<std::uint32_t> working_{0};
  alignas(64) std::atomic<bool> ends_{false};
};

}  // namespace kvist::engine::cpu

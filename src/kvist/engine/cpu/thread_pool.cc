#include "kvist/engine/cpu/thread_pool.h"

#include <pthread.h>
#include <sched.h>

#include "kvist/base/check.h"

namespace kvist::engine::cpu {
namespace {

// Some 20 to 50 microseconds: longer than the gap between two stages, shorter than twice the cost of waking up.
constexpr int kSpins = 2000;

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

std::vector<int> allowed_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

void pin_to(std::thread& thread, int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  // If this fails, the thread runs unpinned.
  ::pthread_setaffinity_np(thread.native_handle(), sizeof set, &set);
}

}  // namespace

ThreadPool::ThreadPool(unsigned threads, bool pin) {
  KVIST_CHECK(threads >= 1, "a pool has at least its caller");
  const std::vector<int> cpus = allowed_cpus();
  // With more threads than CPUs, a spinning thread would take the time of a working one.
  if (threads <= cpus.size()) spins_ = kSpins;
  others_.reserve(threads - 1);
  for (unsigned thread = 1; thread < threads; ++thread) {
    others_.emplace_back([this, thread] { serve(thread); });
    if (pin && cpus.size() > 1) pin_to(others_.back(), cpus[thread % cpus.size()]);
  }
}

ThreadPool::~ThreadPool() {
  ends_.store(true, std::memory_order_relaxed);
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
  for (std::thread& thread : others_) thread.join();
}

void ThreadPool::run_all(Call call, void* context) {
  if (others_.empty()) {
    call(context, 0);
    return;
  }
  call_ = call;
  context_ = context;
  working_.store(static_cast<std::uint32_t>(others_.size()), std::memory_order_relaxed);
  round_.fetch_add(1, std::memory_order_release);
  round_.notify_all();
  call(context, 0);
  int spins = spins_;
  for (std::uint32_t working = 0; (working = working_.load(std::memory_order_acquire)) != 0;) {
    if (spins-- > 0) {
      pause_briefly();
    } else {
      working_.wait(working, std::memory_order_acquire);
    }
  }
}

void ThreadPool::serve(unsigned thread) {
  std::uint32_t seen = 0;
  for (;;) {
    for (int spins = spins_; spins > 0 && round_.load(std::memory_order_acquire) == seen; --spins) pause_briefly();
    round_.wait(seen, std::memory_order_acquire);
    ++seen;  // a run begins only when every thread has finished the previous one: no round is skipped
    if (ends_.load(std::memory_order_relaxed)) return;
    call_(context_, thread);
    if (working_.fetch_sub(1, std::memory_order_release) == 1) working_.notify_one();
  }
}

}  // namespace kvist::engine::cpu

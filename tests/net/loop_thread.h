// An event loop on its own thread, driven from a test's or a benchmark's thread.
#pragma once

#include <chrono>
#include <functional>
#include <future>
#include <thread>
#include <type_traits>

#include "kvist/net/event_loop.h"

namespace kvist::net {

/// Objects that are created inside run() belong to the loop: they must be destroyed inside run() too, before stop().
class LoopThread {
 public:
  LoopThread() : thread_([this] { loop_.run(); }) {}
  ~LoopThread() { stop(); }
  LoopThread(const LoopThread&) = delete;
  LoopThread& operator=(const LoopThread&) = delete;

  [[nodiscard]] EventLoop& loop() { return loop_; }

  /// Runs `work` on the loop's thread and returns its result.
  template <class Work>
  auto run(Work work) {
    std::packaged_task<std::invoke_result_t<Work>()> task(std::move(work));
    auto result = task.get_future();
    loop_.post([&task] { task(); });
    return result.get();
  }

  /// Waits until `condition`, which is called on the loop's thread, holds. Returns false after 100 s.
  [[nodiscard]] bool wait(const std::function<bool()>& condition) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(100);
    while (!run(condition)) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
  }

  /// Idempotent.
  void stop() {
    if (!thread_.joinable()) return;
    loop_.stop();
    thread_.join();
  }

 private:
  EventLoop loop_;
  std::thread thread_;
};

}  // namespace kvist::net

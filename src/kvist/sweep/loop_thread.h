// An event loop on a thread of its own, asked from another one.
#pragma once

#include <chrono>
#include <future>
#include <memory>
#include <thread>
#include <utility>

#include "kvist/base/error.h"
#include "kvist/net/event_loop.h"

namespace kvist::sweep {

/// Runs work on its loop and waits for the result for at most half a minute, because a loop that is that late has
/// failed. What lives on the loop is destroyed by its owner through end(). Threads: one, which is not the loop's.
class LoopThread {
 public:
  LoopThread() : thread_([this] { loop_.run(); }) {}
  /// Requires: end() was called.
  ~LoopThread() { thread_.join(); }
  LoopThread(const LoopThread&) = delete;
  LoopThread& operator=(const LoopThread&) = delete;

  /// For what is made on the loop.
  [[nodiscard]] net::EventLoop& loop() { return loop_; }

  /// Runs `work` on the loop's thread and returns its result.
  template <class Work>
  [[nodiscard]] auto ask(Work work) -> Result<decltype(work())> {
    using Value = decltype(work());
    // Shared, because the loop may still run it after the wait below was given up.
    const auto promise = std::make_shared<std::promise<Value>>();
    auto answer = promise->get_future();
    loop_.post([promise, work = std::move(work)]() mutable { promise->set_value(work()); });
    if (answer.wait_for(std::chrono::seconds(30)) != std::future_status::ready) {
      return fail(ErrorCode::kDeadlineExceeded, "the load generator's loop does not answer");
    }
    return answer.get();
  }

  /// Runs `work`, then ends the loop.
  template <class Work>
  void end(Work work) {
    loop_.post([this, work = std::move(work)]() mutable {
      work();
      loop_.stop();
    });
  }

 private:
  net::EventLoop loop_;
  std::thread thread_;
};

}  // namespace kvist::sweep

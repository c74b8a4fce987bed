// The event loop: one thread's sockets, timers and posted work. Hides epoll.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "kvist/base/time.h"

namespace kvist::net {

/// The wall clock of core time: std::chrono::steady_clock.
[[nodiscard]] TimePoint now();

class LoopImpl;

/// Threads: one runs the loop. Everything made on it (servers, clients, timers) belongs to that thread; only post(),
/// stop() and now() may be called from others. Requires: all of it is destroyed before the loop.
class EventLoop {
 public:
  EventLoop();
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  /// Runs until stop(). Requires: it is called once.
  void run();
  /// Ends run(). May be called before run() and more than once. Threads: any.
  void stop();
  /// Runs `work` later on the loop's thread. Threads: any.
  void post(std::function<void()> work);
  /// Calls the handler on SIGINT and SIGTERM, on the loop's thread. Signals after the first one are no news to it.
  void on_termination(std::function<void()> handler);
  /// Calls the handler on each further one that comes at least kOneSignal after the first: a terminal and a parent
  /// process often both send the same request to end.
  void on_repeated_termination(std::function<void()> handler);
  static constexpr Duration kOneSignal = std::chrono::milliseconds(200);
  /// Calls the handler on each SIGHUP, on the loop's thread, after those that were added before. From the first one on,
  /// the signal no longer ends the process.
  void on_hangup(std::function<void()> handler);

  [[nodiscard]] LoopImpl& impl() { return *impl_; }

 private:
  std::unique_ptr<LoopImpl> impl_;
};

/// A timer on a loop. Destroying or re-arming it cancels the pending call. Threads: the loop's.
class Timer {
 public:
  explicit Timer(EventLoop& loop);
  ~Timer();
  Timer(Timer&&) noexcept;
  Timer& operator=(Timer&&) noexcept;

  /// Calls `handler` on the loop's thread at `when`, or as soon after it as the thread is free.
  void arm(TimePoint when, std::function<void()> handler);
  void cancel();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvist::net

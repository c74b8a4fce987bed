// Threads for work that would hold up a loop.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "kvist/base/time.h"
#include "kvist/net/event_loop.h"

namespace kvist::net {

/// Work starts in the order in which it was submitted, but runs on several threads, so short work may overtake long
/// work. The threads begin with the first work, so that a pool without work costs nothing. Threads: used by the loop's.
/// The destructor waits for work under way; it drops waiting work and results.
class WorkPool {
 public:
  struct Options {
    std::size_t threads = 2;
    std::size_t max_waiting = 1'024;
    std::size_t max_waiting_bytes = 256UL << 20;
  };
  /// Runs on a thread of the pool. The function that it returns runs on the loop.
  using Work = std::function<std::function<void()>()>;

  struct Counters {
    std::uint64_t done = 0;
    std::uint64_t refused = 0;  ///< because too much waited
    double busy_seconds = 0;    ///< sum over all threads
    double waited_seconds = 0;  ///< sum over all work, until a thread was free
    std::size_t waiting = 0;
    std::size_t waiting_bytes = 0;
  };

  WorkPool(EventLoop& loop, Options options);
  ~WorkPool();
  WorkPool(const WorkPool&) = delete;
  WorkPool& operator=(const WorkPool&) = delete;

  /// Returns false and drops the work if too much is waiting. `bytes` is the memory that the work holds.
  [[nodiscard]] bool submit(Work work, std::size_t bytes);
  [[nodiscard]] Counters counters() const;
  /// The counters of another pool are added to these.
  static void add(Counters& sum, const Counters& other);

 private:
  struct Waiting {
    TimePoint since;
    Work work;
    std::size_t bytes = 0;
  };
  void run();

  EventLoop* loop_;
  Options options_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // results check it, on the loop

  mutable std::mutex mutex_;  // guards the members below
  std::condition_variable woken_;
  std::deque<Waiting> waiting_;
  Counters counters_;
  bool stopping_ = false;

  std::vector<std::thread> threads_;  // none before the first work
};

}  // namespace kvist::net

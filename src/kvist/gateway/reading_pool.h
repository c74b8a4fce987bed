// Threads beside the loop, for work on prompts that would hold it up.
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

namespace kvist::gateway {

/// Work is begun in the order in which it was given and goes on several threads: short work may overtake long work.
/// Loop thread only. Destroying it waits for work under way, and drops what waits and what would come back.
class ReadingPool {
 public:
  struct Options {
    std::size_t threads = 2;
    std::size_t max_waiting = 1'024;
    std::size_t max_waiting_bytes = 256UL << 20;
  };
  /// Runs on a thread of the pool; what it returns runs on the loop.
  using Work = std::function<std::function<void()>()>;

  struct Counters {
    std::uint64_t done = 0;
    std::uint64_t refused = 0;  ///< as too many waited
    double busy_seconds = 0;    ///< of all threads
    double waited_seconds = 0;  ///< of all work, before a thread was free
    std::size_t waiting = 0;
    std::size_t waiting_bytes = 0;
  };

  ReadingPool(net::EventLoop& loop, Options options);
  ~ReadingPool();
  ReadingPool(const ReadingPool&) = delete;
  ReadingPool& operator=(const ReadingPool&) = delete;

  /// False, and the work is dropped, where too much waits. `bytes`: memory that the work holds.
  [[nodiscard]] bool submit(Work work, std::size_t bytes);
  [[nodiscard]] Counters counters() const;

 private:
  struct Waiting {
    TimePoint since;
    Work work;
    std::size_t bytes = 0;
  };
  void run();

  net::EventLoop* loop_;
  Options options_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);  // what comes back looks at it, on the loop

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable woken_;
  std::deque<Waiting> waiting_;
  Counters counters_;
  bool stopping_ = false;

  std::vector<std::thread> threads_;
};

}  // namespace kvist::gateway

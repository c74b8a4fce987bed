// A second thread, on which things are computed before their instant comes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>

#include "kvist/base/prefetch.h"
#include "kvist/base/time.h"

namespace kvist::simulation {

/// Takes orders to compute items, which are numbers from 0. The thread that gives them takes each back when its instant
/// comes. If it has not been begun, that thread does it itself; if it is under way, another one meanwhile. So nothing
/// depends on how the two threads run. Between order() and take_back() what an item stands for is left to this object.
/// Threads: one, beside its own.
class SecondThread {
 public:
  /// What is to be computed.
  class Work {
   public:
    virtual ~Work() = default;
    /// On either thread.
    virtual void compute(std::uint32_t item, TimePoint at) = 0;
  };

  /// Requires: `work` outlives this object.
  SecondThread(std::size_t items, Work& work);
  ~SecondThread();
  SecondThread(const SecondThread&) = delete;
  SecondThread& operator=(const SecondThread&) = delete;

  [[nodiscard]] bool is_ordered(std::uint32_t item) const {
    return orders_[item].state.load(std::memory_order_relaxed) != State::kNone;
  }
  /// Returns whether there was room for the order. Requires: the item is not ordered.
  bool order(std::uint32_t item, TimePoint at);
  /// Ends the item's order, if there is one. Returns whether the item has been computed.
  [[nodiscard]] bool take_back(std::uint32_t item);
  /// The processor time that the second thread has used, waiting included, in seconds.
  [[nodiscard]] double cpu_seconds();

 private:
  enum class State : std::uint8_t { kNone, kOrdered, kBegun, kDone };
  struct alignas(kCacheLineBytes) Order {
    std::atomic<State> state = State::kNone;
    TimePoint at;
  };
  // The items that were ordered, a ring. One that was taken back before it was begun is in it for nothing.
  static constexpr std::uint32_t kPlaces = 256;

  void run();
  void await_order();
  bool compute(std::uint32_t item);
  bool compute_last();

  Work* work_;
  std::unique_ptr<Order[]> orders_;  // by item
  std::unique_ptr<std::uint32_t[]> ring_;
  alignas(kCacheLineBytes) std::atomic<std::uint32_t> given_ = 0;
  alignas(kCacheLineBytes) std::atomic<std::uint32_t> taken_ = 0;
  std::atomic<bool> stops_ = false;
  std::uint32_t next_ = 0;  // in the ring, of the second thread
  std::thread thread_;
};

}  // namespace kvist::simulation

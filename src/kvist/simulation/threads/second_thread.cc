#include "kvist/simulation/threads/second_thread.h"

#include <pthread.h>

#include <ctime>

#include "kvist/base/check.h"
#include "kvist/simulation/threads/huge_pages.h"
#include "kvist/simulation/threads/spin.h"

namespace kvist::simulation {

SecondThread::SecondThread(std::size_t items, Work& work)
    : work_(&work),
      orders_(std::make_unique<Order[]>(items)),
      ring_(std::make_unique<std::uint32_t[]>(kPlaces)),
      thread_([this] { run(); }) {}

SecondThread::~SecondThread() {
  stops_.store(true, std::memory_order_relaxed);
  given_.fetch_add(1, std::memory_order_seq_cst);  // as in order(); no order: run() looks at stops_ first
  given_.notify_one();
  thread_.join();
}

bool SecondThread::order(std::uint32_t item, TimePoint at) {
  const std::uint32_t given = given_.load(std::memory_order_relaxed);
  if (given - taken_.load(std::memory_order_acquire) == kPlaces) return false;
  Order& order = orders_[item];
  KVIST_CHECK(order.state.load(std::memory_order_relaxed) == State::kNone, "an item is ordered once at a time");
  order.at = at;
  order.state.store(State::kOrdered, std::memory_order_release);
  ring_[given % kPlaces] = item;
  // Not before anything that notify_one() looks at, or a thread that goes to sleep just now would be left asleep.
  given_.store(given + 1, std::memory_order_seq_cst);
  given_.notify_one();
  return true;
}

bool SecondThread::take_back(std::uint32_t item) {
  std::atomic<State>& state = orders_[item].state;
  Spin spin;
  while (true) {
    State seen = state.load(std::memory_order_acquire);
    if (seen == State::kNone) return false;
    if (seen == State::kDone) {
      state.store(State::kNone, std::memory_order_relaxed);
      return true;
    }
    if (seen == State::kOrdered && state.compare_exchange_strong(seen, State::kNone, std::memory_order_relaxed))
      return false;
    if (!compute_last()) spin.wait();
  }
}

// Returns whether it was ordered, and begun by nobody.
bool SecondThread::compute(std::uint32_t item) {
  Order& order = orders_[item];
  State ordered = State::kOrdered;
  if (!order.state.compare_exchange_strong(ordered, State::kBegun, std::memory_order_acquire)) return false;
  work_->compute(item, order.at);
  order.state.store(State::kDone, std::memory_order_release);
  return true;
}

// Computes the order that was given last, of those that have not been begun: the first ones are the second thread's
// next. Returns whether there was one.
bool SecondThread::compute_last() {
  const std::uint32_t taken = taken_.load(std::memory_order_acquire);
  for (std::uint32_t place = given_.load(std::memory_order_relaxed); place != taken;)
    if (compute(ring_[--place % kPlaces])) return true;
  return false;
}

double SecondThread::cpu_seconds() {
  clockid_t clock{};
  timespec time{};
  if (pthread_getcpuclockid(thread_.native_handle(), &clock) != 0 || clock_gettime(clock, &time) != 0) return 0;
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

void SecondThread::run() {
  use_huge_pages();
  while (true) {
    await_order();
    if (stops_.load(std::memory_order_relaxed)) return;
    const std::uint32_t item = ring_[next_ % kPlaces];
    taken_.store(++next_, std::memory_order_release);
    compute(item);
  }
}

void SecondThread::await_order() {
  Spin spin;
  while (given_.load(std::memory_order_acquire) == next_)
    if (!spin.wait()) given_.wait(next_, std::memory_order_acquire);
}

}  // namespace kvist::simulation

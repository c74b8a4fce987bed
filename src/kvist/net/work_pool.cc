#include "kvist/net/work_pool.h"

#include <utility>

namespace kvist::net {

WorkPool::WorkPool(EventLoop& loop, Options options) : loop_(&loop), options_(options) {}

WorkPool::~WorkPool() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  woken_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

bool WorkPool::submit(Work work, std::size_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    // If nothing is waiting, work of any size is accepted.
    const bool fits = waiting_.empty() || counters_.waiting_bytes + bytes <= options_.max_waiting_bytes;
    if (waiting_.size() >= options_.max_waiting || !fits) {
      ++counters_.refused;
      return false;
    }
    counters_.waiting_bytes += bytes;
    waiting_.push_back({now(), std::move(work), bytes});
  }
  while (threads_.size() < options_.threads) threads_.emplace_back([this] { run(); });
  woken_.notify_one();
  return true;
}

void WorkPool::run() {
  while (true) {
    Waiting next;
    {
      std::unique_lock lock(mutex_);
      woken_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
      if (stopping_) return;
      next = std::move(waiting_.front());
      waiting_.pop_front();
      counters_.waiting_bytes -= next.bytes;
    }
    const TimePoint begun = now();
    std::function<void()> then = next.work();
    {
      const std::lock_guard lock(mutex_);
      ++counters_.done;
      counters_.waited_seconds += to_seconds(begun - next.since);
      counters_.busy_seconds += to_seconds(now() - begun);
    }
    next.work = nullptr;
    // The work's objects belong to the loop, so the last reference to them must be released there.
    loop_->post([alive = std::weak_ptr<bool>(alive_), then = std::move(then)] {
      if (!alive.expired()) then();
    });
  }
}

WorkPool::Counters WorkPool::counters() const {
  const std::lock_guard lock(mutex_);
  Counters counters = counters_;
  counters.waiting = waiting_.size();
  return counters;
}

void WorkPool::add(Counters& sum, const Counters& other) {
  sum.done += other.done;
  sum.refused += other.refused;
  sum.busy_seconds += other.busy_seconds;
  sum.waited_seconds += other.waited_seconds;
  sum.waiting += other.waiting;
  sum.waiting_bytes += other.waiting_bytes;
}

}  // namespace kvist::net

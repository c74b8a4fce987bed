// Private to net: timers ordered by time, which can be removed.
#pragma once

#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

#include "kvist/base/time.h"

namespace kvist::net {

class TimerQueue;

/// A timer of a queue, armed or not. Its destructor removes it from the queue. Requires: it does not move while armed;
/// the queue outlives it or was cleared before.
class TimerNode {
 public:
  explicit TimerNode(TimerQueue& queue) : queue_(&queue) {}
  inline ~TimerNode();
  TimerNode(const TimerNode&) = delete;
  TimerNode& operator=(const TimerNode&) = delete;

  /// Arms the timer, and replaces what was armed before.
  inline void arm(TimePoint when, std::function<void()> handler);
  inline void cancel();
  [[nodiscard]] bool armed() const { return position_ != kNone; }

 private:
  friend class TimerQueue;
  static constexpr std::size_t kNone = ~std::size_t{0};

  TimerQueue* queue_;
  TimePoint when_;
  std::size_t position_ = kNone;  // in the queue's heap
  std::function<void()> handler_;
};

/// A binary heap whose timers know their positions. Arming and cancelling take a few steps and no allocation, and a
/// cancelled timer is removed at once, because a request's deadline is minutes away and there are thousands of
/// requests. Threads: one.
class TimerQueue {
 public:
  TimerQueue() = default;
  TimerQueue(const TimerQueue&) = delete;
  TimerQueue& operator=(const TimerQueue&) = delete;
  ~TimerQueue() { clear(); }

  [[nodiscard]] bool empty() const { return heap_.empty(); }
  /// Requires: it is not empty.
  [[nodiscard]] TimePoint next() const { return heap_.front()->when_; }

  /// Removes the earliest timer that is due and returns its handler; empty if none is due.
  [[nodiscard]] std::function<void()> take_due(TimePoint now) {
    if (heap_.empty() || heap_.front()->when_ > now) return {};
    TimerNode* const node = heap_.front();
    remove(*node);
    return std::exchange(node->handler_, nullptr);
  }

  /// Removes all timers and destroys their handlers.
  void clear() {
    const std::vector<TimerNode*> nodes = std::exchange(heap_, {});
    for (TimerNode* const node : nodes) node->position_ = TimerNode::kNone;
    // Destroyed at the end, because a handler may own another of these timers.
    std::vector<std::function<void()>> handlers;
    handlers.reserve(nodes.size());
    for (TimerNode* const node : nodes) handlers.push_back(std::exchange(node->handler_, nullptr));
  }

 private:
  friend class TimerNode;

  void insert(TimerNode& node) {
    heap_.push_back(&node);
    node.position_ = heap_.size() - 1;
    move_up(node.position_);
  }
  void remove(TimerNode& node) {
    const std::size_t hole = std::exchange(node.position_, TimerNode::kNone);
    TimerNode* const last = heap_.back();
    heap_.pop_back();
    if (last == &node) return;
    put(last, hole);
    move_up(hole);
    move_down(last->position_);
  }

  void put(TimerNode* node, std::size_t at) {
    heap_[at] = node;
    node->position_ = at;
  }
  void move_up(std::size_t at) {
    TimerNode* const node = heap_[at];
    for (; at > 0 && node->when_ < heap_[(at - 1) / 2]->when_; at = (at - 1) / 2) put(heap_[(at - 1) / 2], at);
    put(node, at);
  }
  void move_down(std::size_t at) {
    TimerNode* const node = heap_[at];
    for (std::size_t child = 2 * at + 1; child < heap_.size(); child = 2 * at + 1) {
      if (child + 1 < heap_.size() && heap_[child + 1]->when_ < heap_[child]->when_) ++child;
      if (node->when_ <= heap_[child]->when_) break;
      put(heap_[child], at);
      at = child;
    }
    put(node, at);
  }

  std::vector<TimerNode*> heap_;
};

TimerNode::~TimerNode() {
  if (armed()) queue_->remove(*this);
}

void TimerNode::arm(TimePoint when, std::function<void()> handler) {
  const auto old = std::exchange(handler_, std::move(handler));
  if (armed()) queue_->remove(*this);
  when_ = when;
  queue_->insert(*this);
}

void TimerNode::cancel() {
  if (armed()) queue_->remove(*this);
  const auto gone = std::exchange(handler_, nullptr);
}

}  // namespace kvist::net

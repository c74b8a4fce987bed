// Private to net: connections without a request, in the order in which they became idle.
#pragma once

#include <cstddef>

namespace kvist::net {

class IdleConnections;

/// The place of a connection among the idle ones; it leaves by itself when it is destroyed. Threads: the loop's.
class IdleLink {
 public:
  IdleLink() = default;
  ~IdleLink() { leave_idle(); }
  IdleLink(const IdleLink&) = delete;
  IdleLink& operator=(const IdleLink&) = delete;

  [[nodiscard]] bool is_idle() const { return list_ != nullptr; }
  /// Idempotent.
  inline void leave_idle();

 private:
  friend class IdleConnections;

  IdleConnections* list_ = nullptr;
  IdleLink* before_ = nullptr;
  IdleLink* after_ = nullptr;
};

/// A list through its elements: none of its operations allocates or looks at more than it is told to. Requires: it
/// outlives them. Threads: the loop's.
class IdleConnections {
 public:
  IdleConnections() { ends_.before_ = ends_.after_ = &ends_; }
  IdleConnections(const IdleConnections&) = delete;
  IdleConnections& operator=(const IdleConnections&) = delete;

  /// As the one that became idle last. One that is there keeps its place.
  void add(IdleLink& link) {
    if (link.is_idle()) return;
    link.list_ = this;
    link.before_ = ends_.before_;
    link.after_ = &ends_;
    link.before_->after_ = link.after_->before_ = &link;
    ++size_;
  }
  /// Of the `most` that have been idle longest, the first that `may_go`; null: none.
  template <class MayGo>
  [[nodiscard]] IdleLink* longest(std::size_t most, MayGo may_go) const {
    for (IdleLink* link = ends_.after_; link != &ends_ && most > 0; link = link->after_, --most)
      if (may_go(*link)) return link;
    return nullptr;
  }
  [[nodiscard]] std::size_t size() const { return size_; }

 private:
  friend class IdleLink;

  IdleLink ends_;  // before the first and after the last
  std::size_t size_ = 0;
};

inline void IdleLink::leave_idle() {
  if (list_ == nullptr) return;
  before_->after_ = after_;
  after_->before_ = before_;
  --list_->size_;
  list_ = nullptr;
}

}  // namespace kvist::net

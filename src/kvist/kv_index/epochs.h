// Frees unlinked memory once no reader can still be reading it (epoch-based reclamation, without locks).
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <vector>

namespace kvist::kv_index {

/// Epoch-based reclamation (Fraser, "Practical lock-freedom", 2004) for one writer and registered readers. The writer
/// counts epochs up; a reader announces the epoch in which it reads. Memory that the writer unlinked in an epoch may be
/// used again or freed once no reader announces that epoch or an earlier one.
///
/// Why that is sound without fences: announcing (A) and then reading the epoch again (B) are sequentially consistent,
/// and so are advancing the epoch (C) and then looking at the announcements (D). If A comes before D in that order, the
/// writer sees the reader and waits for it. Otherwise C comes before B, so B reads the new epoch and sees all that was
/// unlinked before it, and the reader cannot reach what was unlinked.
///
/// Threads: Pin is for readers, everything else for the writer. A pinned reader takes a bounded number of steps and
/// never waits. It holds back all that is unlinked meanwhile; how much a reader that stops in the middle can hold back
/// is bounded by what the writer may allocate.
class Epochs {
 public:
  /// What one reader announces; a cache line of its own, because it is written at every look-up.
  struct alignas(64) Announcement {
    static constexpr std::uint64_t kIdle = std::numeric_limits<std::uint64_t>::max();
    static constexpr std::uint64_t kGone = kIdle - 1;
    std::atomic<std::uint64_t> epoch = kIdle;
  };

  /// Registers a reader. Its owner stores kGone when it will not read again.
  [[nodiscard]] std::shared_ptr<Announcement> add_reader();

  [[nodiscard]] std::uint64_t current() const { return epoch_.load(std::memory_order_relaxed); }
  /// Begins the next epoch and notes which older ones readers still announce.
  void advance();
  /// Whether nobody can still see what was unlinked in `epoch`.
  [[nodiscard]] bool passed(std::uint64_t epoch) const { return epoch < safe_; }
  [[nodiscard]] bool has_readers() const { return !readers_.empty(); }

  /// Held by a reader while it reads; not nested.
  class Pin {
   public:
    Pin(const Epochs& epochs, Announcement& announcement) : announcement_(announcement) {
      announcement_.epoch.store(epochs.epoch_.load(std::memory_order_acquire), std::memory_order_seq_cst);
      static_cast<void>(epochs.epoch_.load(std::memory_order_seq_cst));
    }
    ~Pin() { announcement_.epoch.store(Announcement::kIdle, std::memory_order_release); }
    Pin(const Pin&) = delete;
    Pin& operator=(const Pin&) = delete;

   private:
    Announcement& announcement_;
  };

 private:
  std::atomic<std::uint64_t> epoch_ = 1;
  // Epochs before this one have passed; beyond all epochs while there is no reader.
  std::uint64_t safe_ = std::numeric_limits<std::uint64_t>::max();
  std::vector<std::shared_ptr<Announcement>> readers_;
};

inline std::shared_ptr<Epochs::Announcement> Epochs::add_reader() {
  readers_.push_back(std::make_shared<Announcement>());
  safe_ = std::min(safe_, current());
  return readers_.back();
}

inline void Epochs::advance() {
  const std::uint64_t now = epoch_.fetch_add(1, std::memory_order_seq_cst) + 1;
  std::uint64_t oldest = now;
  std::erase_if(readers_, [&](const std::shared_ptr<Announcement>& reader) {
    const std::uint64_t announced = reader->epoch.load(std::memory_order_seq_cst);
    if (announced == Announcement::kGone) return true;
    oldest = std::min(oldest, announced);
    return false;
  });
  safe_ = readers_.empty() ? std::numeric_limits<std::uint64_t>::max() : oldest;
}

/// What was unlinked and waits until no reader can see it any more, oldest first. Threads: the writer's.
template <class Thing>
class RetiredQueue {
 private:
  struct Entry {
    std::uint64_t epoch = 0;
    Thing thing;
  };

 public:
  explicit RetiredQueue(const Epochs& epochs) : epochs_(epochs) {}

  /// Bytes that each waiting thing takes in the queue.
  static constexpr std::ptrdiff_t kBytes = sizeof(Entry);

  /// Requires: no reader that begins from now on can find it.
  void add(const Thing& thing) { entries_.push_back({.epoch = epochs_.current(), .thing = thing}); }
  /// Takes out what no reader can see any more and calls use(thing) for each.
  template <class Use>
  void reclaim(Use use) {
    while (!entries_.empty() && epochs_.passed(entries_.front().epoch)) {
      const Thing thing = entries_.front().thing;
      entries_.pop_front();
      use(thing);
    }
  }
  /// As reclaim(), for everything that waits. Requires: no reader is left.
  template <class Use>
  void drain(Use use) {
    for (const Entry& entry : entries_) use(entry.thing);
    entries_.clear();
  }

 private:
  const Epochs& epochs_;
  std::deque<Entry> entries_;
};

}  // namespace kvist::kv_index

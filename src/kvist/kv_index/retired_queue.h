// What the writer has taken out and readers may still see.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

#include "kvist/kv_index/epochs.h"

namespace kvist::kv_index {

/// Things that wait until the epochs have passed in which a reader might have found them, oldest first. Threads: the
/// writer's.
template <class Thing>
class RetiredQueue {
 private:
  struct Entry {
    std::uint64_t epoch = 0;
    Thing thing;
  };

 public:
  explicit RetiredQueue(const Epochs& epochs) : epochs_(epochs) {}

  /// Of memory, for each thing that waits.
  static constexpr std::ptrdiff_t kBytes = sizeof(Entry);

  /// From now on nobody can find it anew.
  void add(const Thing& thing) { entries_.push_back({.epoch = epochs_.current(), .thing = thing}); }
  /// Calls use(thing) for what no reader can see any more; it is not waiting then.
  template <class Use>
  void reclaim(Use use) {
    while (!entries_.empty() && epochs_.passed(entries_.front().epoch)) {
      const Thing thing = entries_.front().thing;
      entries_.pop_front();
      use(thing);
    }
  }
  /// The same for all that is waiting, where no reader is left.
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

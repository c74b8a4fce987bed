// Which workers hold which block: changes in order, with their memory fetched ahead.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "kvist/routing/epochs.h"
#include "kvist/routing/index_memory.h"
#include "kvist/routing/key_table.h"
#include "kvist/routing/name_table.h"
#include "kvist/routing/worker_set_pool.h"

namespace kvist::routing {

/// A worker's side of a change: keys that it holds under more than one name (a salt it does not tell us of), with the
/// names beyond the first.
struct HoldingWorker {
  std::uint32_t id = 0;
  NameTable* further_names = nullptr;
};

/// Keys with their holders, the sets of holders, and the clock by which blocks age. Changes wait in a short queue until
/// the memory they touch has come; flush() before anything is read. Threads: the writer's; readers may use keys(),
/// sets() and tick() in an epoch.
class HolderTable {
 public:
  HolderTable(IndexMemory& memory, Epochs& epochs) : keys_(memory, epochs), sets_(memory, epochs) {}

  /// The next changes are that worker's; whose they were before.
  HoldingWorker begin_worker(HoldingWorker worker);
  /// The next changes go along one prefix: `parent` is the key before the first, 0 at the start of a prompt.
  void begin_prefix(std::uint64_t parent) { push(parent, Change::kBegin); }
  /// The worker holds the key under one more name; each call goes one block deeper.
  void add(std::uint64_t key) { push(key, Change::kAdd); }
  /// The worker holds the key under one name less.
  void drop(std::uint64_t key) { push(key, Change::kDrop); }
  void flush();
  static constexpr std::size_t kQueued = 16;  ///< changes that wait at most

  [[nodiscard]] const KeyTable& keys() const { return keys_; }
  [[nodiscard]] const WorkerSetPool& sets() const { return sets_; }
  [[nodiscard]] std::uint16_t tick() const { return tick_.load(std::memory_order_relaxed); }
  void reclaim() { sets_.reclaim(); }

  /// What one change may allocate at most, with some workers below `workers`.
  [[nodiscard]] std::size_t growth_bytes(std::size_t workers) const {
    return keys_.growth_bytes() + sets_.growth_bytes(workers);
  }

 private:
  struct Change {
    enum Kind : std::uint8_t { kBegin, kAdd, kDrop };
    KeyTable::Ahead ahead;
    Kind kind = kBegin;
  };

  void push(std::uint64_t key, Change::Kind kind) {
    if (behind_ - first_ == kQueued) [[likely]]
      make_first();
    queue_[behind_++ % kQueued] = {keys_.prefetch_ahead(key), kind};
    if (behind_ - fetched_ > kQueued / 2) [[likely]]
      keys_.prefetch_entry(queue_[fetched_++ % kQueued].ahead);
  }
  void make_first();
  void make_begin(std::uint64_t parent);
  void make_add(std::uint64_t key);
  void make_drop(std::uint64_t key);
  [[nodiscard]] bool drop_further_name(std::uint64_t key);
  void pass_time();

  KeyTable keys_;
  WorkerSetPool sets_;
  HoldingWorker worker_;  // of the changes in the queue
  std::array<Change, kQueued> queue_;
  std::size_t first_ = 0;    // of the queue, counted on and on
  std::size_t fetched_ = 0;  // the first whose entry was not asked for
  std::size_t behind_ = 0;   // the last
  // Of the prefix that make_add() goes along: how fresh its last block is, and how deep the next one lies.
  std::uint16_t prefix_tick_ = 0;
  std::uint32_t depth_ = 0;
  std::atomic<std::uint16_t> tick_ = 0;
  std::size_t added_in_tick_ = 0;
};

}  // namespace kvist::routing

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

  /// The next changes go along one prefix: `parent` is the key before the first, 0 at the start of a prompt.
  void begin_prefix(std::uint64_t parent);
  /// The worker holds the key under one more name; each call goes one block deeper.
  void add(HoldingWorker worker, std::uint64_t key) { push({key, worker, Change::kAdd}); }
  /// The worker holds the key under one name less.
  void drop(HoldingWorker worker, std::uint64_t key) { push({key, worker, Change::kDrop}); }
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
    std::uint64_t key = 0;
    HoldingWorker worker = {};
    Kind kind = kBegin;
  };

  void push(const Change& change);
  void make(const Change& change);
  void make_begin(std::uint64_t parent);
  void make_add(HoldingWorker worker, std::uint64_t key);
  void make_drop(HoldingWorker worker, std::uint64_t key);
  void pass_time();

  KeyTable keys_;
  WorkerSetPool sets_;
  std::array<Change, kQueued> queue_;
  std::size_t first_ = 0;   // of the queue, counted on and on
  std::size_t behind_ = 0;  // the last
  // Of the prefix that make_add() goes along: how fresh its last block is, and how deep the next one lies.
  std::uint16_t prefix_tick_ = 0;
  std::uint32_t depth_ = 0;
  std::atomic<std::uint16_t> tick_ = 0;
  std::size_t added_in_tick_ = 0;
};

}  // namespace kvist::routing

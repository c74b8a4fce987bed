// Which workers hold which block: what stores and removals do to the keys.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

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

/// Keys with their holders, the sets of holders, and the clock by which blocks age. Each change takes a
/// KeyTable::Ahead: whoever makes many asks for the memory of all of them before the first (ChangeGroup). Threads: the
/// writer's; readers may use keys(), sets() and tick() in an epoch.
class HolderTable {
 public:
  HolderTable(IndexMemory& memory, Epochs& epochs) : keys_(memory, epochs), sets_(memory, epochs) {}

  using Ahead = KeyTable::Ahead;
  /// The memory of a change comes: first what prefetch() asks for, and once that is there the rest.
  void prefetch(std::uint64_t key, Ahead& ahead) { keys_.prefetch_ahead(key, ahead); }
  [[nodiscard]] static Ahead not_fetched(std::uint64_t key) {
    Ahead ahead;
    ahead.hash = key;
    return ahead;
  }
  void prefetch_entry(Ahead& ahead) const { keys_.prefetch_entry(ahead); }

  /// What add() goes along: how fresh the last block of the prefix is, and how deep the next one lies.
  struct Prefix {
    std::uint16_t tick = 0;
    std::uint32_t depth = 0;
  };
  /// At the start of a prompt.
  [[nodiscard]] Prefix root() const { return {.tick = tick(), .depth = 0}; }
  /// Behind a block that somebody holds.
  [[nodiscard]] Prefix behind(const Ahead& parent);
  /// The worker holds the key under one more name; it ends the prefix from now on.
  void add(const HoldingWorker& worker, Prefix& prefix, const Ahead& key);
  /// The worker holds the key under one name less.
  void drop(const HoldingWorker& worker, const Ahead& key);
  /// The same for many, in order.
  void drop_all(const HoldingWorker& worker, std::span<const std::uint64_t> keys);

  [[nodiscard]] const KeyTable& keys() const { return keys_; }
  [[nodiscard]] const WorkerSetPool& sets() const { return sets_; }
  [[nodiscard]] std::uint16_t tick() const { return tick_.load(std::memory_order_relaxed); }
  void reclaim() { sets_.reclaim(); }

  /// What one change may allocate at most, with some workers below `workers`.
  [[nodiscard]] std::size_t growth_bytes(std::size_t workers) const {
    return keys_.growth_bytes() + sets_.growth_bytes(workers);
  }

 private:
  [[nodiscard]] BlockUse use_of_new(Prefix& prefix) const;
  void add_to(const HoldingWorker& worker, Prefix& prefix, std::uint64_t key, const KeyTable::Place& place);
  [[nodiscard]] static bool drop_further_name(const HoldingWorker& worker, std::uint64_t key);
  void pass_time();

  KeyTable keys_;
  WorkerSetPool sets_;
  std::atomic<std::uint16_t> tick_ = 0;
  std::size_t added_in_tick_ = 0;
};

}  // namespace kvist::routing

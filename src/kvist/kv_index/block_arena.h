// Where the blocks of the KV index lie.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kvist/kv_index/epochs.h"
#include "kvist/kv_index/index_memory.h"
#include "kvist/kv_index/indexed_block.h"
#include "kvist/kv_index/retired_queue.h"

namespace kvist::kv_index {

/// Units of blocks (BlockChunk or LoneBlock) by number, from kUnits on, in slabs of kUnits; a slab without units is
/// given back. Units that are allocated one after the other lie one behind the other as far as there is room. Threads:
/// find_shared() for readers in an epoch, who may come upon a unit that was freed and used again since they learned its
/// number, never upon memory that is gone; everything else is the writer's.
template <class Unit, std::uint32_t kUnits>
class BlockArena {
 public:
  BlockArena(IndexMemory& memory, Epochs& epochs) : memory_(memory), epochs_(epochs), retired_(epochs) {}
  ~BlockArena();
  BlockArena(const BlockArena&) = delete;
  BlockArena& operator=(const BlockArena&) = delete;

  [[nodiscard, gnu::always_inline]] Unit& unit(std::uint32_t number) const {
    const Directory* const directory = directory_.load(std::memory_order_acquire);
    return directory->at(number / kUnits).load(std::memory_order_acquire)->units[number % kUnits];
  }
  /// The same by a reader, who may come too late for it: null.
  [[nodiscard]] Unit* find_shared(std::uint32_t number) const {
    const Directory* const directory = directory_.load(std::memory_order_acquire);
    if (directory == nullptr || number / kUnits >= directory->capacity) [[unlikely]]
      return nullptr;
    Slab* const slab = directory->at(number / kUnits).load(std::memory_order_acquire);
    return slab != nullptr ? &slab->units[number % kUnits] : nullptr;
  }

  /// Its number, below `kNumbers`; nothing in it but marks of blocks that no reader looks at any more.
  [[nodiscard]] std::uint32_t allocate();
  /// All its blocks are erased.
  void free(std::uint32_t number);
  /// Uses again what no reader can see any more.
  void reclaim();
  static constexpr std::uint32_t kNumbers = 1U << 28;

  /// Slabs that there are.
  [[nodiscard]] std::size_t slabs() const { return live_slabs_; }
  /// Calls visit(unit) for some unit near a random number. Requires a slab.
  template <class Visit>
  void visit_near(std::uint64_t random, Visit visit) const {
    std::size_t slab = random % slabs_.size();
    while (!exists(slab)) slab = slab + 1 == slabs_.size() ? 0 : slab + 1;
    visit(unit(static_cast<std::uint32_t>(slab * kUnits + (random >> 32) % kUnits)));
  }

  /// Units that can be allocated without more memory.
  [[nodiscard]] std::size_t free_units() const { return free_units_; }
  /// What allocating one unit may take of the memory.
  [[nodiscard]] std::size_t growth_bytes() const;

 private:
  static constexpr std::uint32_t kNone = ~0U;
  static constexpr std::uint32_t kWordBits = 64;

  struct Slab {
    Unit units[kUnits];
  };
  using Address = std::atomic<Slab*>;
  /// Followed by `capacity` addresses of slabs.
  struct Directory {
    std::uint64_t capacity = 0;

    [[nodiscard]] const Address& at(std::size_t i) const { return reinterpret_cast<const Address*>(this + 1)[i]; }
    [[nodiscard]] Address& at(std::size_t i) { return reinterpret_cast<Address*>(this + 1)[i]; }
  };
  /// What the writer knows of a slab.
  struct SlabState {
    std::array<std::uint64_t, (kUnits + kWordBits - 1) / kWordBits> free = {};  // units, a bit each
    std::uint32_t free_units = 0;
    // Neighbours in the list of slabs with free units.
    std::uint32_t previous = kNone;
    std::uint32_t next = kNone;
    bool exists = false;
  };
  static constexpr std::size_t kStateBytes = sizeof(SlabState) + sizeof(std::uint32_t);

  [[nodiscard]] bool exists(std::size_t slab) const { return slabs_[slab].exists; }
  void add_slab();
  void grow_directory();
  void forget_slabs();
  void set_free(std::uint32_t number);
  void link(std::uint32_t slab);
  void unlink(std::uint32_t slab);
  /// Requires one.
  [[nodiscard]] static std::uint32_t first_free(const SlabState& state) {
    std::uint32_t word = 0;
    while (state.free[word] == 0) ++word;
    return word * kWordBits + static_cast<std::uint32_t>(std::countr_zero(state.free[word]));
  }
  [[nodiscard]] static std::size_t directory_bytes(std::uint64_t capacity) {
    return sizeof(Directory) + capacity * sizeof(Address);
  }

  IndexMemory& memory_;
  Epochs& epochs_;
  std::atomic<Directory*> directory_ = nullptr;
  std::vector<SlabState> slabs_;     // by number; number 0 is none
  std::vector<std::uint32_t> gone_;  // numbers to be used again
  std::uint32_t first_with_free_ = kNone;
  std::size_t live_slabs_ = 0;
  std::size_t free_units_ = 0;
  RetiredQueue<std::uint32_t> retired_;
};

extern template class BlockArena<BlockChunk, 32>;
extern template class BlockArena<LoneBlock, 256>;

}  // namespace kvist::kv_index

// Where the blocks of the KV index lie.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "kvist/routing/epochs.h"
#include "kvist/routing/index_memory.h"
#include "kvist/routing/indexed_block.h"

namespace kvist::routing {

/// Chunks of blocks by 32-bit references, in slabs of 32; a slab without chunks is given back. Chunks that are
/// allocated one after the other lie one behind the other as far as there is room. Threads: find_shared() for readers
/// in an epoch, who may come upon a chunk that was freed and used again since they learned its reference, never upon
/// memory that is gone; everything else is the writer's.
class BlockArena {
 public:
  BlockArena(IndexMemory& memory, Epochs& epochs) : memory_(memory), epochs_(epochs) {}
  ~BlockArena();
  BlockArena(const BlockArena&) = delete;
  BlockArena& operator=(const BlockArena&) = delete;

  [[nodiscard, gnu::always_inline]] IndexedBlock& block(BlockRef ref) const {
    return chunk(ref).blocks[number_in_chunk(ref)];
  }
  [[nodiscard, gnu::always_inline]] BlockChunk& chunk(BlockRef ref) const {
    const Directory* const directory = directory_.load(std::memory_order_acquire);
    Slab* const slab = directory->at(ref / kSlabRefs).load(std::memory_order_acquire);
    return slab->chunks[ref % kSlabRefs / kChunkRefs];
  }
  /// The same by a reader, who may come too late for it: null.
  [[nodiscard]] IndexedBlock* find_shared(BlockRef ref) const {
    const Directory* const directory = directory_.load(std::memory_order_acquire);
    if (directory == nullptr || ref / kSlabRefs >= directory->capacity) [[unlikely]]
      return nullptr;
    Slab* const slab = directory->at(ref / kSlabRefs).load(std::memory_order_acquire);
    if (slab == nullptr) [[unlikely]]
      return nullptr;
    return &slab->chunks[ref % kSlabRefs / kChunkRefs].blocks[number_in_chunk(ref)];
  }
  [[nodiscard]] static std::uint32_t number_in_chunk(BlockRef ref) { return ref % kChunkRefs; }

  /// The reference of its first block; nothing in it but marks of blocks that no reader looks at any more.
  [[nodiscard]] BlockRef allocate();
  /// All its blocks are erased.
  void free(BlockRef first);
  /// Uses again what no reader can see any more.
  void reclaim();

  /// Calls visit(block) for the blocks of some chunk near a random number.
  template <class Visit>
  void visit_near(std::uint64_t random, Visit visit) const {
    if (live_slabs_ == 0) return;
    std::size_t slab = random % slabs_.size();
    while (!exists(slab)) slab = slab + 1 == slabs_.size() ? 0 : slab + 1;
    const BlockRef ref = static_cast<BlockRef>(slab * kSlabRefs + (random >> 32) % kSlabChunks * kChunkRefs);
    for (const IndexedBlock& block : chunk(ref).blocks) visit(block);
  }

  /// Bytes of chunks that can be allocated without more memory.
  [[nodiscard]] std::size_t free_bytes() const { return free_chunks_ * sizeof(BlockChunk); }
  /// What allocating one chunk may take of the memory.
  [[nodiscard]] std::size_t growth_bytes() const;

 private:
  static constexpr std::uint32_t kSlabChunks = 32;
  static constexpr std::uint32_t kChunkRefs = 8;  // one of which is not of a block
  static constexpr std::uint32_t kSlabRefs = kSlabChunks * kChunkRefs;
  static constexpr std::uint32_t kAllFree = ~0U;
  static constexpr std::uint32_t kNone = ~0U;

  struct Slab {
    BlockChunk chunks[kSlabChunks];
  };
  /// Followed by `capacity` addresses of slabs.
  struct Directory {
    std::uint64_t capacity = 0;

    using Address = std::atomic<Slab*>;
    [[nodiscard]] const Address& at(std::size_t i) const { return reinterpret_cast<const Address*>(this + 1)[i]; }
    [[nodiscard]] Address& at(std::size_t i) { return reinterpret_cast<Address*>(this + 1)[i]; }
  };
  /// What the writer knows of a slab.
  struct SlabState {
    std::uint32_t free = 0;  // chunks, a bit each
    bool exists = false;
    // Neighbours in the list of slabs with free chunks.
    std::uint32_t previous = kNone;
    std::uint32_t next = kNone;
  };
  static constexpr std::size_t kStateBytes = sizeof(SlabState) + sizeof(std::uint32_t);
  struct Retired {
    std::uint64_t epoch = 0;
    BlockRef first = 0;
  };

  [[nodiscard]] bool exists(std::size_t slab) const { return slabs_[slab].exists; }
  void add_slab();
  void grow_directory();
  void forget_slabs();
  void set_free(BlockRef first);
  void link(std::uint32_t slab);
  void unlink(std::uint32_t slab);
  [[nodiscard]] static std::size_t directory_bytes(std::uint64_t capacity) {
    return sizeof(Directory) + capacity * sizeof(Directory::Address);
  }

  IndexMemory& memory_;
  Epochs& epochs_;
  std::atomic<Directory*> directory_ = nullptr;
  std::vector<SlabState> slabs_;     // by number; number 0 is none
  std::vector<std::uint32_t> gone_;  // numbers to be used again
  std::uint32_t first_with_free_ = kNone;
  std::size_t live_slabs_ = 0;
  std::size_t free_chunks_ = 0;
  std::deque<Retired> retired_;  // oldest first
};

}  // namespace kvist::routing

// Sets of workers, each kept once however many blocks have it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kvist/base/id.h"
#include "kvist/kv_index/epochs.h"
#include "kvist/kv_index/index_memory.h"
#include "kvist/kv_index/name_table.h"

namespace kvist::kv_index {

/// A set of workers, by its handle in a pool. Two handles that are equal at one moment mean equal sets. A set of one
/// worker is encoded in the handle and takes no memory.
using WorkerSetHandle = std::uint32_t;

/// An immutable set of several workers. It has a bit per worker from the first member's word to the last member's, or,
/// where that is shorter, a list of its members in ascending order.
class PooledWorkerSet {
 public:
  [[nodiscard]] std::uint32_t count() const { return count_; }
  [[nodiscard]] bool contains(std::uint32_t worker) const;
  /// Calls visit(word index, bits) for words with members, in ascending order.
  template <class Visit>
  void for_each_word(Visit visit) const {
    if (word_count_ > 0) {
      for (std::uint32_t i = 0; i < word_count_; ++i) {
        if (words()[i] != 0) visit(first_word_ + i, words()[i]);
      }
      return;
    }
    for (std::uint32_t i = 0; i < count_;) {
      const std::uint32_t word = ids()[i] / 64;
      std::uint64_t bits = 0;
      for (; i < count_ && ids()[i] / 64 == word; ++i) bits |= std::uint64_t{1} << (ids()[i] % 64);
      visit(word, bits);
    }
  }

 private:
  friend class WorkerSetPool;
  [[nodiscard]] const std::uint64_t* words() const { return reinterpret_cast<const std::uint64_t*>(this + 1); }
  [[nodiscard]] const std::uint32_t* ids() const { return reinterpret_cast<const std::uint32_t*>(this + 1); }
  [[nodiscard]] std::size_t content_bytes() const { return word_count_ > 0 ? word_count_ * 8U : count_ * 4U; }

  std::uint64_t hash_ = 0;
  std::uint32_t count_ = 0;
  std::uint32_t first_word_ = 0;
  std::uint32_t word_count_ = 0;  // 0: members are listed
};

/// The sets of workers of one index, each stored once. The blocks of one prefix nearly always have the same set.
/// Therefore a further worker costs one bit per prefix instead of one per block, and a look-up sees by the handle that
/// the holders do not change from one block to the next.
///
/// Threads: readers in an epoch may call get() and contains(); everything else is the writer's. A set lives while it is
/// referenced, and after that until no reader can see its handle any more.
class WorkerSetPool {
 public:
  static constexpr WorkerSetHandle kEmpty = 0;

  WorkerSetPool(IndexMemory& memory, Epochs& epochs);
  ~WorkerSetPool();
  WorkerSetPool(const WorkerSetPool&) = delete;
  WorkerSetPool& operator=(const WorkerSetPool&) = delete;

  /// Members are below this number.
  static constexpr std::uint32_t kMaxWorkers = (1U << 31) - 1;
  [[nodiscard]] static bool is_single(WorkerSetHandle set) { return set < kPooled; }
  [[nodiscard]] static WorkerSetHandle single(std::uint32_t worker) { return worker + 1; }
  /// The member of a set of one.
  [[nodiscard]] static std::uint32_t member(WorkerSetHandle set) { return set - 1; }
  /// The set of a handle. Requires: it is a set of several workers.
  [[nodiscard]] const PooledWorkerSet& get(WorkerSetHandle set) const {
    const std::uint32_t slot = set - kPooled;
    const Chunks* const chunks = chunks_.load(std::memory_order_acquire);
    const Chunk* const chunk = chunks->at(slot / kChunkSlots).load(std::memory_order_acquire);
    return *chunk->sets[slot % kChunkSlots].load(std::memory_order_acquire);
  }
  [[nodiscard]] bool contains(WorkerSetHandle set, std::uint32_t worker) const {
    return is_single(set) ? set == single(worker) : get(set).contains(worker);
  }

  /// The set with one more worker. The caller's reference to `set` becomes one to the result. Requires: the worker is
  /// not in the set.
  [[nodiscard]] WorkerSetHandle with(WorkerSetHandle set, std::uint32_t worker) {
    return set == kEmpty ? single(worker) : changed(set, worker);
  }
  /// The set with one worker less. The caller's reference to `set` becomes one to the result, if that is not empty.
  /// Requires: the worker is in the set.
  [[nodiscard]] WorkerSetHandle without(WorkerSetHandle set, std::uint32_t worker) {
    return is_single(set) ? kEmpty : changed(set, worker);
  }
  /// Makes handles that no reader can see any more available again.
  void reclaim();

  /// How many sets of several workers there are.
  [[nodiscard]] std::size_t size() const { return sets_; }
  /// How much one change may allocate at most, in a set whose members are below `workers`.
  [[nodiscard]] std::size_t growth_bytes(std::size_t workers) const;

 private:
  static constexpr WorkerSetHandle kPooled = 1U << 31;
  static constexpr std::uint32_t kChunkSlots = 128;
  static constexpr std::uint32_t kNone = 0xffff'ffff;

  struct Chunk {
    std::atomic<const PooledWorkerSet*> sets[kChunkSlots];
    std::uint32_t references[kChunkSlots];  // of an unused slot: the next unused one
  };
  /// Followed by `capacity` addresses of chunks.
  struct Chunks {
    std::uint64_t capacity = 0;

    using Address = std::atomic<Chunk*>;
    [[nodiscard]] const Address& at(std::size_t i) const { return reinterpret_cast<const Address*>(this + 1)[i]; }
    [[nodiscard]] Address& at(std::size_t i) { return reinterpret_cast<Address*>(this + 1)[i]; }
  };
  /// The last change, remembered because the blocks of a prefix change in the same way one after the other.
  struct Change {
    WorkerSetHandle from = kEmpty;
    std::uint32_t worker = 0;
    WorkerSetHandle to = kEmpty;
  };

  [[nodiscard]] WorkerSetHandle changed(WorkerSetHandle set, std::uint32_t worker);
  [[nodiscard]] WorkerSetHandle find_or_make(WorkerSetHandle set, std::uint32_t worker);
  void compose(WorkerSetHandle set, std::uint32_t toggled);
  [[nodiscard]] bool holds_composed(const PooledWorkerSet& set) const;
  [[nodiscard]] WorkerSetHandle make_composed(std::uint64_t hash);
  [[nodiscard]] std::uint64_t hash_of(WorkerSetHandle set) const;
  [[nodiscard]] std::uint32_t& references(WorkerSetHandle set);
  [[nodiscard]] Chunk& chunk_of(std::uint32_t slot) { return *chunks_.load()->at(slot / kChunkSlots).load(); }
  void drop(WorkerSetHandle set);
  void free_slot(std::uint32_t slot);
  [[nodiscard]] std::uint32_t take_slot();
  [[nodiscard]] static std::size_t chunks_bytes(std::uint64_t capacity) {
    return sizeof(Chunks) + capacity * sizeof(Chunks::Address);
  }
  [[nodiscard]] static std::size_t set_bytes(std::size_t content_bytes) {
    const std::size_t bytes = sizeof(PooledWorkerSet) + content_bytes;
    return (bytes + IndexMemory::kAlignment - 1) / IndexMemory::kAlignment * IndexMemory::kAlignment;
  }

  IndexMemory& memory_;
  Epochs& epochs_;
  std::atomic<Chunks*> chunks_ = nullptr;
  std::uint32_t slots_ = 0;           // that were ever used
  std::uint32_t first_free_ = kNone;  // the first unused one among them
  std::size_t sets_ = 0;
  RetiredQueue<std::uint32_t> retired_;  // slots
  NameTable by_hash_;                    // handles
  Change last_;
  // The set that compose() made: bits from word first_, and how many there are.
  std::vector<std::uint64_t> composed_;
  std::uint32_t composed_first_ = 0;
  std::uint32_t composed_count_ = 0;
};

}  // namespace kvist::kv_index

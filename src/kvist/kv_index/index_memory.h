// The memory of one KV index: every byte counted, none given back while a reader may see it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kvist/kv_index/epochs.h"
#include "kvist/kv_index/huge_heap.h"
#include "kvist/kv_index/retired_queue.h"

namespace kvist::kv_index {

/// Allocates for the tables of one index: from malloc while they are small, then in large pages (HugeHeap). The count
/// holds the blocks with what aligns them, not what lies free between them in malloc's heap or the other. Threads: the
/// writer's only.
class IndexMemory {
 public:
  IndexMemory(Epochs& epochs, std::size_t max_bytes) : epochs_(epochs), max_bytes_(max_bytes), retired_(epochs) {}
  /// Requires that no reader is left.
  ~IndexMemory();
  IndexMemory(const IndexMemory&) = delete;
  IndexMemory& operator=(const IndexMemory&) = delete;

  static constexpr std::size_t kAlignment = 64;  // of a cache line
  /// A block is to take 64 bytes at most, all in; what is done to that end begins before.
  static constexpr std::size_t kBytesPerBlock = 60;

  /// Zeroed.
  [[nodiscard]] void* allocate(std::size_t bytes);
  /// What no reader ever sees is given back at once.
  void release(void* block, std::size_t bytes);
  /// Given back when no reader is left that may have found it; it must not be findable any more.
  void retire(void* block, std::size_t bytes);
  /// Gives back what readers held up to now.
  void reclaim();

  /// Of memory that is not allocated here but belongs to the index.
  void count(std::ptrdiff_t bytes) { bytes_ += static_cast<std::size_t>(bytes); }

  /// Whether so much more would stay within the budget. Nothing here refuses: what must be allocated is, what may be
  /// left asks first.
  [[nodiscard]] bool fits(std::size_t bytes) const { return bytes_ + bytes + HugeHeap::kGranule <= max_bytes_; }
  /// The index holds so many blocks more: each counts as often as workers hold it.
  void count_blocks(std::ptrdiff_t blocks) { blocks_ += static_cast<std::size_t>(blocks); }
  /// Whether blocks take so little in the mean that tables may be roomy.
  [[nodiscard]] bool ample(std::size_t bytes_per_block = kBytesPerBlock) const {
    return bytes_ < blocks_ * bytes_per_block;
  }

  /// All memory held, retired included.
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  /// Taken out and held back by readers.
  [[nodiscard]] std::size_t retired_bytes() const { return retired_bytes_; }
  [[nodiscard]] Epochs& epochs() { return epochs_; }

 private:
  [[nodiscard]] static void* allocate_small(std::size_t bytes);
  [[nodiscard]] static std::size_t held(const void* block, std::size_t bytes);
  void free_block(void* block, std::size_t bytes);

  struct Retired {
    void* block = nullptr;
    std::size_t bytes = 0;
  };

  Epochs& epochs_;
  std::size_t max_bytes_;
  std::size_t bytes_ = 0;
  std::size_t retired_bytes_ = 0;
  std::size_t blocks_ = 0;
  RetiredQueue<Retired> retired_;
  HugeHeap huge_;
};

}  // namespace kvist::kv_index

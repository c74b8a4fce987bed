// The memory of one KV index: counted, kept while a reader may see it, and in huge pages if there is much of it.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kvist/kv_index/epochs.h"

namespace kvist::kv_index {

/// Allocates blocks out of extents of 2 MiB, for which it asks the kernel for huge pages. With pages of 4 KiB all over
/// a heap of gigabytes, a distant access needs distant page tables too: on a virtual machine these take 300 ns where
/// the access itself takes 100, and prefetching does not hide it. Where the kernel has no huge pages, the blocks at
/// least lie close to each other.
///
/// Free memory is used again, first fit, beginning with the extents of the lowest addresses. Extents without blocks go
/// back to the kernel, except for one while others are in use. If an extent was nearly full once and less than half of
/// its bytes are in use, its free pages go back. Threads: one at a time.
class HugeHeap {
 public:
  static constexpr std::size_t kGranule = 256;  ///< addresses and sizes of blocks are multiples of it
  static constexpr std::size_t kExtent = std::size_t{2} << 20;

  HugeHeap() = default;
  ~HugeHeap();
  HugeHeap(const HugeHeap&) = delete;
  HugeHeap& operator=(const HugeHeap&) = delete;

  /// How much memory a block of `bytes` takes.
  [[nodiscard]] static std::size_t rounded(std::size_t bytes) { return (bytes + kGranule - 1) / kGranule * kGranule; }
  /// Returns zeroed memory of 1 to kExtent bytes; null where the kernel gives none.
  [[nodiscard]] void* allocate(std::size_t bytes);
  /// Requires: allocate(bytes) returned the block.
  void release(void* block, std::size_t bytes);

  [[nodiscard]] std::size_t extents() const { return extents_.size(); }

 private:
  static constexpr std::size_t kGranules = kExtent / kGranule;

  // A class has the blocks of 2^(class - 1) + 1 to 2^class granules.
  static constexpr std::size_t kClasses = 14;
  [[nodiscard]] static std::size_t class_of(std::size_t granules) {
    return static_cast<std::size_t>(std::bit_width(granules - 1));
  }
  [[nodiscard]] static std::size_t least_of(std::size_t size_class) {
    return size_class == 0 ? 1 : (std::size_t{1} << (size_class - 1)) + 1;
  }

  struct Extent {
    std::byte* base = nullptr;
    std::size_t free = kGranules;
    std::size_t longest = kGranules;                      // no row of free granules is longer
    std::size_t fresh = 0;                                // granules from here on were never used, so they are zero
    bool was_full = false;                                // more than seven eighths were in use at once
    std::array<std::uint64_t, kGranules / 64> used = {};  // a bit for each granule

    /// Where the first row of at least that many free granules begins; kGranules if there is none.
    [[nodiscard]] std::size_t find(std::size_t granules) const;
    /// The end of the row of free (or used) granules that begins at `at`, and the beginning of the row of free granules
    /// that ends at `at`. A row may be empty.
    [[nodiscard]] std::size_t end_of_free(std::size_t at) const;
    [[nodiscard]] std::size_t end_of_used(std::size_t at) const;
    [[nodiscard]] std::size_t begin_of_free(std::size_t at) const;
    void mark(std::size_t from, std::size_t granules, bool as_used);
    [[nodiscard]] void* take(std::size_t from, std::size_t granules);
    void release(std::size_t from, std::size_t granules);
    /// Gives the whole pages within a row of free granules back to the kernel.
    void give_back(std::size_t from, std::size_t end) const;
    void give_back_all() const;
  };

  [[nodiscard]] std::size_t add_extent();
  void drop_empty();

  std::vector<Extent> extents_;  // by address
  // By class of sizes: extents before this one have no free place for such a block.
  std::array<std::size_t, kClasses> first_candidate_ = {};
};

/// Allocates for the tables of one index: from malloc while they are small, then from HugeHeap. bytes() counts each
/// block with its alignment, but not the free memory between blocks in either heap. Threads: the writer's.
class IndexMemory {
 public:
  IndexMemory(Epochs& epochs, std::size_t max_bytes) : epochs_(epochs), max_bytes_(max_bytes), retired_(epochs) {}
  /// Requires: no reader is left.
  ~IndexMemory();
  IndexMemory(const IndexMemory&) = delete;
  IndexMemory& operator=(const IndexMemory&) = delete;

  static constexpr std::size_t kAlignment = 64;  // of a cache line
  /// Tables are kept fuller from this mean size of a block on, so that it stays below 64.
  static constexpr std::size_t kBytesPerBlock = 60;

  /// Returns zeroed memory.
  [[nodiscard]] void* allocate(std::size_t bytes);
  /// Frees memory at once. Requires: no reader can see it.
  void release(void* block, std::size_t bytes);
  /// Frees memory once no reader is left that may have found it. Requires: no reader can find it anew.
  void retire(void* block, std::size_t bytes);
  /// Frees retired memory that no reader can see any more.
  void reclaim();

  /// Counts memory that belongs to the index and is allocated elsewhere.
  void count(std::ptrdiff_t bytes) { bytes_ += static_cast<std::size_t>(bytes); }

  /// Whether `bytes` more would stay within the budget. allocate() never refuses: callers that can do without ask
  /// first.
  [[nodiscard]] bool fits(std::size_t bytes) const { return bytes_ + bytes + HugeHeap::kGranule <= max_bytes_; }
  /// Adds to the number of blocks in the index, in which a block counts once for each worker that holds it.
  void count_blocks(std::ptrdiff_t blocks) { blocks_ += static_cast<std::size_t>(blocks); }
  /// Whether a block takes less than `bytes_per_block` in the mean, so that tables may have more free slots.
  [[nodiscard]] bool averages_below(std::size_t bytes_per_block = kBytesPerBlock) const {
    return bytes_ < blocks_ * bytes_per_block;
  }

  /// All memory held, retired included.
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  /// The part of it that is retired and not freed yet.
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

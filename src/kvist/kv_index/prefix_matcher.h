// How much of a prompt each worker holds: the search that every look-up makes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kvist/base/id.h"
#include "kvist/kv/block_hash.h"
#include "kvist/kv_index/block_chains.h"
#include "kvist/kv_index/kv_index.h"
#include "kvist/kv_index/worker_set_pool.h"

namespace kvist::kv_index {

/// Finds how many leading blocks of a prompt each worker holds. It visits the prompt's blocks in order and looks at the
/// workers only where the set of holders changes. It keeps its memory from prompt to prompt.
/// Threads: one per matcher; a reader's only in an epoch.
class PrefixMatcher {
 public:
  enum class Caller {
    kWriter,  ///< nobody changes the tables meanwhile
    kReader,
  };

  /// The workers that hold at least the first block, in ascending order. Valid until the next call. Marks the found
  /// blocks as used at `tick`.
  template <Caller kCaller>
  std::span<const WorkerMatch> match(const BlockChains& blocks, const WorkerSetPool& sets, std::uint16_t tick,
                                     std::span<const kv::BlockHash> hashes);
  /// As match(), for an index in which some holders are workers' lower tiers: those numbered from `lower_from` on,
  /// kLowerTiers for each worker. A worker holds a block in the best medium in which it has it.
  template <Caller kCaller>
  std::span<const WorkerMatch> match_tiers(const BlockChains& blocks, const WorkerSetPool& sets, std::uint16_t tick,
                                           std::span<const kv::BlockHash> hashes, std::size_t lower_from);
  /// Of the last match: KvIndex::lower_tiers().
  [[nodiscard]] std::span<const LowerTierMatch> lower_tiers() const { return lower_; }

 private:
  void begin(const WorkerSetPool& sets, WorkerSetHandle holders);
  void narrow(const WorkerSetPool& sets, WorkerSetHandle holders, std::uint32_t depth);
  void lose(std::uint32_t word, std::uint64_t bits, std::uint32_t depth);

  /// A worker that held the first block.
  struct Tiered {
    WorkerId worker;
    bool alive = true;
    std::uint8_t tier = 0;  // of the blocks since the holders changed last
    std::array<std::uint32_t, kLowerTiers + 1> blocks{};
  };
  void read_tiers(const WorkerSetPool& sets, WorkerSetHandle holders, std::size_t lower_from);
  [[nodiscard]] bool narrow_tiers(bool first);
  void count_tiers(std::uint32_t blocks);
  void sum_tiers_up();

  std::vector<LowerTierMatch> lower_;
  std::vector<Tiered> tiered_;
  std::vector<std::uint8_t> tier_of_;  // by worker: its best medium in the present set of holders, or kNoTier
  std::vector<WorkerMatch> matches_;   // 0 blocks: holds all blocks so far
  // The workers that hold all blocks so far, one bit each from word first_word_ on.
  std::vector<std::uint64_t> alive_;
  std::uint32_t first_word_ = 0;
  std::size_t alive_count_ = 0;
};

}  // namespace kvist::kv_index

// How much of a prompt each worker holds: the search that every look-up makes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kvist/base/id.h"
#include "kvist/kv/block_hash.h"
#include "kvist/kv_index/block_chains.h"
#include "kvist/kv_index/kv_index.h"
#include "kvist/kv_index/worker_set_pool.h"

namespace kvist::kv_index {

/// Matches prompts one after the other, keeping its memory. Workers are looked at only where the set of holders
/// changes. Threads: one per matcher; a reader's in an epoch.
class PrefixMatcher {
 public:
  enum class Caller {
    kWriter,  ///< nobody changes the tables meanwhile
    kReader,
  };

  /// The workers that hold the first block or more, in ascending order; valid until the next call. Found blocks become
  /// as fresh as `tick`.
  template <Caller kCaller>
  std::span<const WorkerMatch> match(const BlockChains& blocks, const WorkerSetPool& sets, std::uint16_t tick,
                                     std::span<const kv::BlockHash> hashes);

 private:
  void begin(const WorkerSetPool& sets, WorkerSetHandle holders);
  void narrow(const WorkerSetPool& sets, WorkerSetHandle holders, std::uint32_t depth);
  void lose(std::uint32_t word, std::uint64_t bits, std::uint32_t depth);

  std::vector<WorkerMatch> matches_;  // 0 blocks: holds all blocks so far
  // Which of them these are, as bits from a word on.
  std::vector<std::uint64_t> alive_;
  std::uint32_t first_word_ = 0;
  std::size_t alive_count_ = 0;
};

}  // namespace kvist::kv_index

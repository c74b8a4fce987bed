// The KV memory of an engine that is rolled forward, as far as it decides on admission.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "kvist/engine/core_view.h"
#include "kvist/spec/deployment.h"

namespace kvist::engine {

/// Counts blocks instead of moving them. Most of the time all requests that are known fit together to the end of their
/// answers; then nothing is counted. Simplifications: blocks that are cached now stay so; blocks that two requests of
/// the roll-forward share and nobody before them are free when the first of the two ends; a greedy engine preempts
/// nothing, its requests only wait at admission. Threads: one.
class RolledMemory {
 public:
  /// What a request takes at admission.
  struct Demand {
    std::uint32_t total = 0;                           ///< blocks that it can ever need
    std::uint32_t cached = 0;                          ///< leading blocks that it finds cached
    std::uint32_t first_step = 0;                      ///< blocks of its first step beyond those
    std::span<const kv::BlockHash> block_hashes = {};  ///< of its prompt
  };

  explicit RolledMemory(spec::AdmissionKind admission) : admission_(admission) {}

  /// Starts from this engine, to which requests come that need `asked` blocks in all besides those that it has.
  void begin(const CoreView& view, std::uint64_t asked);
  /// A running request; returns the number of its holder.
  [[nodiscard]] std::uint32_t hold(const SequenceView& running);
  [[nodiscard]] bool admits(const Demand& demand);
  /// Requires: admits(). Returns the number of its holder.
  [[nodiscard]] std::uint32_t admit(const Demand& demand);
  /// The blocks that a step allocates.
  void grow(double blocks) {
    if (!ample_ && admission_ == spec::AdmissionKind::kGreedy) room_ -= blocks;
  }
  /// A request leaves that has allocated this many blocks in all.
  void leave(std::uint32_t holder, std::uint32_t blocks);

 private:
  struct Holder {
    std::uint32_t total = 0;
    std::span<const kv::BlockId> blocks;  // those that the pool knows it by
  };
  [[nodiscard]] std::uint32_t references(kv::BlockId block) const;
  void match(const Demand& demand);
  void use(kv::BlockId block, std::int32_t more);

  spec::AdmissionKind admission_;
  const kv::BlockPool* pool_ = nullptr;
  bool ample_ = false;
  // Reserve to completion: free blocks that are not promised. Greedy: free blocks.
  double room_ = 0;
  std::vector<Holder> holders_;
  std::deque<std::vector<kv::BlockId>> found_;  // the blocks of holders that were admitted here
  std::vector<std::int32_t> more_uses_;         // than the pool knows, by block
  std::vector<kv::BlockId> touched_;            // where that was not 0 at some time
  std::vector<kv::BlockId> match_;              // of the last demand, which these two name
  const kv::BlockHash* matched_ = nullptr;
  std::uint32_t matched_cached_ = 0;
  // Of the last demand that was refused: while nothing leaves it is refused again.
  const kv::BlockHash* refused_ = nullptr;
  std::uint32_t refused_cached_ = 0;
};

}  // namespace kvist::engine

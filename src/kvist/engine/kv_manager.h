// The KV blocks of sequences: prefix look-up, growth, registration, release. Private to the engine.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kvist/engine/admission.h"
#include "kvist/engine/block_contents.h"
#include "kvist/engine/sequence.h"
#include "kvist/kv/block_pool.h"

namespace kvist::engine {

/// Connects sequences to the block pool. Blocks become findable when the step that computed them has ended, or was
/// planned, as the caller has it, and only if their tokens are certain. A decoding sequence takes time only when its
/// tokens cross the border of a block. Threads: one.
class KvManager {
 public:
  /// What is done with tokens beside hashing them.
  struct Tokens {
    bool compares_tokens = false;  ///< a cached block is used only if it holds the sequence's tokens (BlockContents)
    bool tells_tokens = true;      ///< events have them
  };

  KvManager(std::string model, std::uint32_t blocks, std::uint32_t block_size, std::unique_ptr<AdmissionPolicy> policy,
            Tokens tokens);

  /// Admits a waiting sequence, whose first step computes at most `budget` tokens, if the policy agrees. It then holds
  /// the cached blocks of its tokens, which count as computed, if it may use them. The last token is never taken from
  /// the cache, because its computation gives the next sample. Returns false and changes nothing if it does not fit
  /// now.
  [[nodiscard]] bool try_admit(Sequence& sequence, std::uint32_t budget);
  /// Computes the block hashes of a prompt, once.
  void name_prompt(Sequence& sequence);
  /// The index of the first block of a waiting sequence that is not findable. Requires: name_prompt() was called.
  [[nodiscard]] std::size_t first_uncached(const Sequence& sequence);
  /// Allocates blocks for the first `tokens` tokens. Returns false and changes nothing if the pool has too few free
  /// blocks, which never happens if the policy has promised them.
  [[nodiscard]] bool try_grow(Sequence& sequence, std::uint32_t tokens) {
    return tokens <= sequence.covered || allocate_for(sequence, tokens);
  }
  /// Makes the blocks findable that are complete now, with one event for all of them.
  void commit_computed(Sequence& sequence) {
    if (sequence.computed >= sequence.next_commit) commit_complete(sequence, sequence.computed);
  }
  /// Makes the blocks findable that the steps planned so far complete. Whoever finds one must not be computed before
  /// the step that fills it; a later sequence of the same step is not.
  void commit_planned(Sequence& sequence) {
    if (sequence.planned >= sequence.next_commit) commit_complete(sequence, sequence.planned);
  }
  /// Releases all blocks, from the last to the first, so that the ends of prefixes are reused before shared beginnings.
  /// Nothing of the sequence counts as computed any more.
  void release(Sequence& sequence);

  [[nodiscard]] kv::BlockPool& pool() { return pool_; }
  [[nodiscard]] const kv::BlockPool& pool() const { return pool_; }

 private:
  [[nodiscard]] bool still_refused(const Sequence& sequence) const;
  /// How often a block that was missing or free became findable and in use.
  [[nodiscard]] std::uint64_t gains() const { return pool_.counters().stored_blocks + pool_.counters().reuses; }
  [[nodiscard]] BlockDemand look_up(Sequence& sequence, std::uint32_t budget);
  void keep_holding(const Sequence& sequence);
  void note_contents(const Sequence& sequence, std::uint32_t first, std::uint32_t complete);
  [[nodiscard]] std::optional<kv::BlockId> copy_that_holds(kv::BlockId first, std::span<const TokenId> tokens,
                                                           std::uint64_t before) const;
  [[nodiscard]] std::span<const TokenId> tokens_of(const Sequence& sequence, std::size_t block) const {
    return std::span(sequence.tokens).subspan(block * pool_.block_size() - sequence.named_tokens, pool_.block_size());
  }
  [[nodiscard]] bool allocate_for(Sequence& sequence, std::uint32_t tokens);
  void commit_complete(Sequence& sequence, std::uint32_t tokens_there);
  [[nodiscard]] std::uint32_t blocks_for(std::uint32_t tokens) const {
    return (tokens + pool_.block_size() - 1) / pool_.block_size();
  }

  std::string model_;
  kv::BlockPool pool_;
  std::optional<BlockContents> contents_;  // nothing: hashes are trusted
  bool tells_tokens_;
  std::unique_ptr<AdmissionPolicy> policy_;
  std::vector<kv::BlockId>
      match_;  // of the last look_up(); a member, so that repeated look-ups of a blocked request allocate nothing
};

}  // namespace kvist::engine

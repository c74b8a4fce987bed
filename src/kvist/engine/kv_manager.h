// The KV blocks of sequences: prefix look-up, growth, registration, release. Private to the engine.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kvist/engine/admission.h"
#include "kvist/engine/sequence.h"
#include "kvist/kv/block_pool.h"

namespace kvist::engine {

/// Connects sequences to the block pool. Owned by the core; one thread. Blocks become findable only when the step that
/// computed them has ended, and only with tokens that are certain.
class KvManager {
 public:
  KvManager(std::string model, std::uint32_t blocks, std::uint32_t block_size, std::unique_ptr<AdmissionPolicy> policy);

  /// Admits a waiting sequence if the policy agrees: it then holds the cached blocks of its prompt, which count as
  /// computed, and the policy has promised it the rest. The last prompt token is never taken from the cache, because
  /// its computation gives the first sample. False, and nothing has changed, if it does not fit now.
  [[nodiscard]] bool try_admit(Sequence& sequence);
  /// Makes room for the first `tokens` tokens. Requires that admission covers them.
  void grow(Sequence& sequence, std::uint32_t tokens);
  /// Makes blocks findable that are complete now: one event for all of them.
  void commit_computed(Sequence& sequence);
  /// Gives up all blocks, from the last to the first, so that tails are re-used before shared heads.
  void release(Sequence& sequence);

  [[nodiscard]] kv::BlockPool& pool() { return pool_; }
  [[nodiscard]] const kv::BlockPool& pool() const { return pool_; }

 private:
  [[nodiscard]] BlockDemand look_up(const Sequence& sequence);

  std::string model_;
  kv::BlockPool pool_;
  std::unique_ptr<AdmissionPolicy> policy_;
  std::vector<kv::BlockId> match_;  // of the last look_up(); a member so that a blocked head of line allocates nothing
};

}  // namespace kvist::engine

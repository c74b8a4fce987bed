// Which tokens of which request the next step computes. Private to the engine.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

#include "kvist/engine/kv_manager.h"
#include "kvist/engine/sequence.h"
#include "kvist/engine/step.h"

namespace kvist::engine {

/// Owns the sequences and plans steps. Running sequences are served first, in the order of their admission; then
/// waiting ones are admitted first come, first served: the first that does not fit stops admission, so that a long
/// request cannot be passed over for ever. Each gets min(tokens it is behind, budget left). Deterministic; one thread.
class Scheduler {
 public:
  struct Limits {
    std::uint32_t max_batch_size = 0;
    std::uint32_t max_num_tokens = 0;
  };
  /// `kv` must outlive it.
  Scheduler(Limits limits, KvManager& kv) : limits_(limits), kv_(&kv) {}

  /// Queues a sequence. Requires that its id is not in use.
  void add(std::unique_ptr<Sequence> sequence);
  /// The sequence of a request that has not left; null for any other.
  [[nodiscard]] Sequence* find(RequestId id);
  /// Forgets a sequence. Requires that it holds no blocks.
  void remove(const Sequence& sequence);

  /// Plans the next step and takes the blocks it needs; without sequences when there is nothing to do. `admitted`
  /// receives the sequences that start with it, in order.
  [[nodiscard]] StepPlan plan(StepId id, std::vector<const Sequence*>& admitted);

  /// Sequences with a batch slot: one that has ended keeps its slot until its steps have.
  [[nodiscard]] std::uint32_t running() const { return static_cast<std::uint32_t>(running_.size()); }
  [[nodiscard]] std::uint32_t waiting() const { return static_cast<std::uint32_t>(waiting_.size()); }

 private:
  void give_tokens(Sequence& sequence, StepPlan& plan, std::uint32_t& budget);

  Limits limits_;
  KvManager* kv_;
  std::unordered_map<RequestId, std::unique_ptr<Sequence>> sequences_;  // for look-up only: its order means nothing
  std::deque<Sequence*> waiting_;                                       // in order of arrival
  std::vector<Sequence*> running_;                                      // in order of admission
};

}  // namespace kvist::engine

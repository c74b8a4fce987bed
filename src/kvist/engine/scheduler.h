// Which tokens of which request the next step computes. Private to the engine.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

#include "kvist/engine/kv_manager.h"
#include "kvist/engine/sequence.h"
#include "kvist/engine/speculation.h"
#include "kvist/engine/step.h"

namespace kvist::engine {

/// Owns the sequences and plans steps. Running sequences are served first, in the order of their admission; then
/// waiting ones are admitted first come, first served: the first that does not fit stops admission, so that a long
/// request cannot be passed over for ever. Each gets min(tokens it is behind, budget left), a decoding one its drafts
/// besides.
///
/// Where a running sequence finds no free block (greedy admission), the last admitted one gives its blocks up and goes
/// back to the front of the queue, to be computed again, and keeps its slot. Its blocks come back when the steps that
/// compute it have ended; until then the one in need sits out. Nothing is admitted in a step that ran out of memory.
/// This cannot stand still: the first of the running ones is never the one to go unless it is alone, and what is alone
/// fits. Deterministic; one thread.
class Scheduler {
 public:
  struct Limits {
    std::uint32_t max_batch_size = 0;
    std::uint32_t max_num_tokens = 0;
    bool prefix_deferral = false;  ///< a prompt whose next block another one is computing waits for it
  };
  /// `kv` must outlive it; so must `speculation`, which may be null: no drafts.
  Scheduler(Limits limits, KvManager& kv, SpeculationPolicy* speculation);

  /// Queues a request. Requires that its id is not in use.
  void add(Request request, std::uint32_t output_limit);
  /// The sequence of a request that has not left; null for any other.
  [[nodiscard]] Sequence* find(RequestId id) const;
  /// The sequence in a slot, which must be taken.
  [[nodiscard]] Sequence& at(SlotId slot) const { return *slots_[slot.value()]; }
  /// Forgets a sequence. Requires that it holds no blocks.
  void remove(Sequence& sequence);
  /// Puts a preempted sequence, none of whose steps is under way any more, back into the queue.
  void requeue(Sequence& sequence);

  /// Plans the next step in place of what `plan` holds, and takes the blocks it needs; without sequences when there is
  /// nothing to do. `admitted` receives the sequences that start with it for the first time, in order.
  void plan(StepPlan& plan, std::vector<Sequence*>& admitted);

  /// Sequences with a place in the batch: one that has ended keeps it until its steps have.
  [[nodiscard]] std::uint32_t running() const { return static_cast<std::uint32_t>(running_.size()); }
  [[nodiscard]] std::uint32_t waiting() const { return static_cast<std::uint32_t>(waiting_.size()); }
  [[nodiscard]] std::uint64_t preemptions() const { return preemptions_; }
  /// Tokens that have to be computed before all of its requests decode; what the cache may spare the waiting ones is
  /// not looked up.
  [[nodiscard]] std::uint64_t prefill_backlog() const;

 private:
  [[nodiscard]] perfmodel::StepLoad load_without_drafts() const;
  [[nodiscard]] bool serve_running(StepPlan& plan, std::uint32_t& budget, std::uint32_t drafts);
  [[nodiscard]] bool make_room(Sequence& sequence, std::uint32_t tokens);
  void preempt_last();
  void admit_waiting(StepPlan& plan, std::uint32_t& budget, std::vector<Sequence*>& admitted);
  [[nodiscard]] bool is_being_computed(Sequence& waiting) const;
  static void give_tokens(Sequence& sequence, std::uint32_t count, std::uint32_t drafts, StepPlan& plan);

  Limits limits_;
  KvManager* kv_;
  SpeculationPolicy* speculation_;
  std::unordered_map<RequestId, std::unique_ptr<Sequence>> sequences_;  // for look-up only: its order means nothing
  std::deque<Sequence*> waiting_;                                       // preempted ones first, then by arrival
  std::vector<Sequence*> running_;                                      // in order of first admission
  std::vector<Sequence*> slots_;                                        // null: free
  std::vector<SlotId> free_slots_;                                      // the next to be given out last
  std::uint64_t admissions_ = 0;
  std::uint64_t preemptions_ = 0;
};

}  // namespace kvist::engine

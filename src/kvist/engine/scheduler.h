// Decides which tokens of which request the next step computes. Private to the engine.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <unordered_map>
#include <vector>

#include "kvist/engine/core_view.h"
#include "kvist/engine/decode_run.h"
#include "kvist/engine/kv_manager.h"
#include "kvist/engine/sequence.h"
#include "kvist/engine/speculation.h"
#include "kvist/engine/step.h"

namespace kvist::engine {

/// Owns the sequences and plans steps. Running sequences are served first, in the order of their admission. Then
/// waiting ones are admitted by their priority, first come, first served among equals; the first that does not fit
/// stops admission, so that a long request cannot starve. Each sequence gets min(tokens it is behind, budget left), a
/// decoding one its drafts in addition. With a threshold of long prompts, those behind a long one get what it leaves of
/// the budget.
///
/// If a running sequence finds no free block (greedy admission), the last admitted one is preempted: it gives up its
/// blocks, goes back to the front of the queue to be computed again, and keeps its slot. Its blocks become free when
/// the steps that compute it have ended; until then the sequence in need is not served. Nothing is admitted in a step
/// that ran out of memory. This cannot livelock, because the first running sequence is only preempted if it is alone,
/// and a sequence that is alone fits. Deterministic. Threads: one.
class Scheduler {
 public:
  struct Limits {
    std::uint32_t max_batch_size = 0;
    std::uint32_t max_num_tokens = 0;
    bool prefix_deferral = false;      ///< a prompt waits while the same step computes its next block for another one
    bool prefix_when_planned = false;  ///< blocks of prompts can be found from the step on that computes them
    std::uint32_t long_prefill_token_threshold = 0;  ///< of one sequence in a step, while there are others; 0: no limit
  };
  /// `speculation` may be null: no drafts. `run` may be null: each step has each sequence; with a run nothing is
  /// drafted. Requires: all of them outlive it.
  Scheduler(Limits limits, KvManager& kv, SpeculationPolicy* speculation, DecodeRun* run);

  /// The token budget of the steps to come.
  void set_max_num_tokens(std::uint32_t tokens) { limits_.max_num_tokens = tokens; }

  /// Queues a request. Requires: its id is not in use.
  void add(Request request, std::uint32_t output_limit);
  /// The sequence of a request; null if it has left or never existed.
  [[nodiscard]] Sequence* find(RequestId id) const;
  /// The sequence in a slot. Requires: the slot is taken.
  [[nodiscard]] Sequence& at(SlotId slot) const { return *slots_[slot.value()]; }
  /// Removes a sequence. Requires: it holds no blocks.
  void remove(Sequence& sequence);
  /// Puts a preempted sequence back into the queue. Requires: none of its steps is under way.
  void requeue(Sequence& sequence);

  /// Plans the next step, replacing the content of `plan`, and allocates its blocks. The plan has no sequences if there
  /// is nothing to do. Appends to `admitted` the sequences that are admitted for the first time, in order.
  void plan(StepPlan& plan, std::vector<Sequence*>& admitted);
  /// Lets sequences join the run. To be called when a planned step has begun.
  void let_join();
  /// Takes a sequence out of the run, if it is in it.
  void take_out_of_run(Sequence& sequence);

  /// The number of sequences in the batch. One that has ended counts until its steps have ended.
  [[nodiscard]] std::uint32_t running() const { return static_cast<std::uint32_t>(running_.size()); }
  [[nodiscard]] std::uint32_t waiting() const { return static_cast<std::uint32_t>(waiting_.size()); }
  [[nodiscard]] std::uint64_t preemptions() const { return preemptions_; }
  /// The tokens that have to be computed before all requests decode, without regard to the cache for waiting ones.
  [[nodiscard]] std::uint64_t prefill_backlog() const;
  /// See Core::look().
  void look(CoreView& view);

 private:
  [[nodiscard]] perfmodel::StepLoad load_without_drafts() const;
  /// Both serve the batch, in the order of admission. Return false if memory ran out, or if a preempted sequence is
  /// not in the queue yet, because none may be admitted before it.
  [[nodiscard]] bool serve_running(StepPlan& plan, std::uint32_t& budget, std::uint32_t drafts);
  [[nodiscard]] bool serve_beside_run(StepPlan& plan, std::uint32_t& budget);
  void prepare_run(std::uint32_t budget);
  [[nodiscard]] bool run_changes_nothing(std::uint32_t budget) const;
  void leave_batch(Sequence& sequence);
  [[nodiscard]] bool make_room(Sequence& sequence, std::uint32_t tokens);
  void preempt_last();
  void admit_waiting(StepPlan& plan, std::uint32_t& budget, std::vector<Sequence*>& admitted);
  [[nodiscard]] bool is_being_computed(Sequence& waiting, const StepPlan& plan) const;
  [[nodiscard]] std::uint32_t most_of_one(std::uint32_t budget) const;
  [[nodiscard]] std::uint32_t share_of(const Sequence& sequence, std::uint32_t budget) const;
  void give_tokens(Sequence& sequence, std::uint32_t count, std::uint32_t drafts, StepPlan& plan);

  Limits limits_;
  KvManager* kv_;
  SpeculationPolicy* speculation_;
  std::unordered_map<RequestId, std::unique_ptr<Sequence>> sequences_;  // for look-up only; its order is never used
  std::deque<Sequence*> waiting_;   // preempted ones first, then by priority, arrival
  std::vector<Sequence*> running_;  // in order of first admission
  DecodeRun* run_;                  // may be null
  std::vector<Sequence*> apart_;    // those of running_ that are not in the run, in the same order
  std::vector<Sequence*> growing_;  // those in the run that need a block for this step; a member to reuse its memory
  std::vector<Sequence*> served_;   // likewise: those that serve_beside_run() has to look at
  std::uint32_t no_joining_ = 0;    // for so many steps
  std::vector<Sequence*> slots_;    // null: free
  std::vector<SlotId> free_slots_;  // the last one is given out next
  std::uint64_t admissions_ = 0;
  std::uint64_t preemptions_ = 0;
};

}  // namespace kvist::engine

#include "kvist/engine/scheduler.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "kvist/base/check.h"

namespace kvist::engine {

Scheduler::Scheduler(Limits limits, KvManager& kv, SpeculationPolicy* speculation)
    : limits_(limits), kv_(&kv), speculation_(speculation), slots_(limits.max_batch_size, nullptr) {
  for (std::uint32_t slot = limits.max_batch_size; slot > 0; --slot) free_slots_.emplace_back(slot - 1);
}

void Scheduler::add(Request request, std::uint32_t output_limit) {
  const RequestId id = request.id;
  auto sequence = std::make_unique<Sequence>(std::move(request), output_limit, kv_->pool().block_size());
  // Nearly always at the end.
  auto place = waiting_.end();
  while (place != waiting_.begin()) {
    const Sequence& before = **std::prev(place);
    if (before.admitted || before.request.priority <= sequence->request.priority) break;
    --place;
  }
  waiting_.insert(place, sequence.get());
  const bool is_new = sequences_.emplace(id, std::move(sequence)).second;
  KVIST_CHECK(is_new, "request id " + std::to_string(id.value()) + " is in use");
}

Sequence* Scheduler::find(RequestId id) const {
  const auto found = sequences_.find(id);
  return found == sequences_.end() ? nullptr : found->second.get();
}

void Scheduler::remove(Sequence& sequence) {
  KVIST_CHECK(sequence.blocks.empty(), "a sequence with blocks was removed");
  if (sequence.phase == Phase::kWaiting) {
    waiting_.erase(std::ranges::find(waiting_, &sequence));
  } else {
    running_.erase(std::ranges::find(running_, &sequence));
  }
  if (sequence.admitted) {
    slots_[sequence.slot.value()] = nullptr;
    free_slots_.push_back(sequence.slot);
  }
  const RequestId id = sequence.id;
  sequences_.erase(id);
}

void Scheduler::requeue(Sequence& sequence) {
  KVIST_CHECK(sequence.steps_in_flight == 0 && sequence.pending_samples == 0, "a step of it is under way");
  running_.erase(std::ranges::find(running_, &sequence));
  kv_->release(sequence);
  sequence.phase = Phase::kWaiting;
  sequence.prefill_end = sequence.certain();
  // Preempted sequences go before all that wait for the first time, in the order of their first admission. So at most
  // max_batch_size requests have a slot, and running_ keeps that order too.
  const auto behind = std::ranges::find_if(
      waiting_, [&](const Sequence* other) { return !other->admitted || other->admission > sequence.admission; });
  waiting_.insert(behind, &sequence);
}

std::uint64_t Scheduler::prefill_backlog() const {
  const auto missing = [](const Sequence* s) {
    return s->phase == Phase::kEnded ? 0 : s->prefill_end - std::min(s->prefill_end, s->computed);
  };
  std::uint64_t tokens = 0;
  for (const Sequence* sequence : waiting_) tokens += missing(sequence);
  for (const Sequence* sequence : running_) tokens += missing(sequence);
  return tokens;
}

void Scheduler::look(CoreView& view) {
  const auto view_of = [](const Sequence& s) {
    return SequenceView{.request = &s.request,
                        .slot = s.slot,
                        .prompt_tokens = s.prompt_tokens,
                        .known = s.known(),
                        .planned = s.planned,
                        .prefill_end = s.prefill_end,
                        .committed_blocks = s.committed_blocks,
                        .output_limit = s.output_limit,
                        .total_blocks = s.total_blocks,
                        .ended = s.phase == Phase::kEnded,
                        .block_hashes = s.block_hashes,
                        .blocks = s.blocks};
  };
  view.pool = &kv_->pool();
  view.running.clear();
  view.waiting.clear();
  for (const Sequence* sequence : running_) {
    // A preempted sequence is as good as back in the queue, before all that never ran.
    (sequence->phase == Phase::kPreempted ? view.waiting : view.running).push_back(view_of(*sequence));
  }
  for (Sequence* sequence : waiting_) {
    kv_->name_prompt(*sequence);
    view.waiting.push_back(view_of(*sequence));
  }
}

void Scheduler::give_tokens(Sequence& sequence, std::uint32_t count, std::uint32_t drafts, StepPlan& plan) {
  const std::uint32_t first = sequence.planned;
  const std::uint32_t end = first + count + drafts;
  const bool is_prefill = first < sequence.prefill_end;
  const bool samples = first + count == sequence.known();
  plan.sequences.push_back({.id = sequence.id,
                            .slot = sequence.slot,
                            .first = first,
                            .count = count + drafts,
                            .drafts = drafts,
                            .samples = samples,
                            .is_prefill = is_prefill});
  perfmodel::StepLoad& load = plan.load;
  load.sequences += 1;
  load.kv_tokens_read += end;
  if (is_prefill) {
    load.prefill_tokens += count;
    // The token at position p attends to p + 1 tokens.
    load.prefill_pairs += std::uint64_t{count} * first + std::uint64_t{count} * (std::uint64_t{count} + 1) / 2;
  } else {
    load.decode_sequences += 1;
    load.decode_kv_tokens += end;
    load.draft_tokens += drafts;
    load.draft_passes = std::max(load.draft_passes, drafts);
  }
  sequence.planned = end;
  sequence.steps_in_flight += 1;
  sequence.pending_samples += samples ? 1 : 0;
  sequence.speculating = drafts > 0;
}

// Only of running sequences, because those that will be admitted are not known yet.
perfmodel::StepLoad Scheduler::load_without_drafts() const {
  perfmodel::StepLoad load;
  std::uint64_t budget = limits_.max_num_tokens;
  for (const Sequence* sequence : running_) {
    const std::uint64_t count =
        sequence->phase == Phase::kRunning ? std::min<std::uint64_t>(sequence->behind(), budget) : 0;
    if (count == 0) continue;
    const std::uint64_t context = sequence->planned + count;
    budget -= count;
    load.sequences += 1;
    load.kv_tokens_read += context;
    if (sequence->decodes()) {
      load.decode_sequences += 1;
      load.decode_kv_tokens += context;
    } else {
      load.prefill_tokens += count;
      load.prefill_pairs += count * sequence->planned + count * (count + 1) / 2;
    }
  }
  return load;
}

// Preempts the last admitted sequence. Requires: all in running_ are Phase::kRunning.
void Scheduler::preempt_last() {
  Sequence& victim = *running_.back();
  KVIST_CHECK(running_.size() > 1, "a request that is alone found no block");
  ++preemptions_;
  victim.phase = Phase::kPreempted;
  if (victim.steps_in_flight == 0) requeue(victim);
}

// Allocates blocks for the first `tokens` tokens, preempting others if needed. Returns false if that is not possible in
// this step, or if the sequence itself was preempted.
bool Scheduler::make_room(Sequence& sequence, std::uint32_t tokens) {
  while (!kv_->try_grow(sequence, tokens)) {
    // Blocks of a preempted sequence will be free when its steps have ended, so no further one is preempted before
    // that.
    if (!std::ranges::all_of(running_, [](const Sequence* s) { return s->phase == Phase::kRunning; })) return false;
    preempt_last();
    if (sequence.phase != Phase::kRunning) return false;
  }
  return true;
}

// Returns false if memory ran out, or if a preempted sequence is not in the queue yet, because none may be admitted
// before it.
bool Scheduler::serve_running(StepPlan& plan, std::uint32_t& budget, std::uint32_t drafts) {
  bool enough = true;
  bool nobody_returns = true;
  for (std::size_t i = 0; i < running_.size(); ++i) {  // the size shrinks when one is preempted
    Sequence& sequence = *running_[i];
    if (sequence.phase == Phase::kPreempted) nobody_returns = false;
    if (sequence.phase != Phase::kRunning) continue;
    const std::uint32_t count = std::min(sequence.behind(), budget);
    if (count == 0) continue;
    const std::uint32_t end = sequence.planned + count;
    std::uint32_t more = 0;
    if (drafts > 0 && sequence.decodes()) more = std::min({drafts, budget - count, sequence.final_computed - end});
    if (more > 0 && !(enough && kv_->try_grow(sequence, end + more))) more = 0;  // nothing is preempted for drafts
    if (end > sequence.covered) {
      enough = enough && make_room(sequence, end);
      if (!enough) continue;
    }
    give_tokens(sequence, count, more, plan);
    budget -= count + more;
  }
  return enough && nobody_returns;
}

bool Scheduler::is_being_computed(Sequence& waiting) const {
  if (!waiting.may_use_cache()) return false;
  kv_->name_prompt(waiting);
  // The last token is always computed, and so is its block.
  const std::size_t most =
      std::min<std::size_t>(waiting.block_hashes.size(), (waiting.certain() - 1) / kv_->pool().block_size());
  if (most == 0) return false;
  // Nearly always no other sequence computes a prompt with the same beginning. Then the pool need not be asked.
  const auto computes_a_twin = [&](const Sequence* s) {
    return s->phase == Phase::kRunning && s->committed_blocks < s->block_hashes.size() &&
           s->block_hashes.front() == waiting.block_hashes.front();
  };
  if (std::ranges::none_of(running_, computes_a_twin)) return false;
  const std::size_t next = kv_->first_uncached(waiting);
  return next < most && std::ranges::any_of(
                            running_,
                            [&](const Sequence* s) {
                              return computes_a_twin(s) && next >= s->committed_blocks &&
                                     next < s->block_hashes.size() &&
                                     s->block_hashes[next] == waiting.block_hashes[next];
                            });
}

void Scheduler::admit_waiting(StepPlan& plan, std::uint32_t& budget, std::vector<Sequence*>& admitted) {
  for (auto next = waiting_.begin();
       next != waiting_.end() && budget > 0 && running_.size() < limits_.max_batch_size;) {
    Sequence& sequence = **next;
    if (limits_.prefix_deferral && !sequence.admitted && is_being_computed(sequence)) {
      ++next;
      continue;
    }
    if (!kv_->try_admit(sequence, budget)) return;
    next = waiting_.erase(next);
    sequence.phase = Phase::kRunning;
    running_.push_back(&sequence);
    if (!sequence.admitted) {
      sequence.admitted = true;
      sequence.admission = ++admissions_;
      sequence.cached_tokens = sequence.computed;
      sequence.slot = free_slots_.back();
      free_slots_.pop_back();
      slots_[sequence.slot.value()] = &sequence;
      admitted.push_back(&sequence);
    }
    const std::uint32_t count = std::min(sequence.behind(), budget);
    KVIST_CHECK(kv_->try_grow(sequence, sequence.planned + count), "an admitted request found no block");
    give_tokens(sequence, count, 0, plan);
    budget -= count;
  }
}

void Scheduler::plan(StepPlan& plan, std::vector<Sequence*>& admitted) {
  plan.sequences.clear();
  plan.load = {};
  std::uint32_t drafts = 0;
  if (speculation_ != nullptr) {
    const perfmodel::StepLoad load = load_without_drafts();
    if (load.decode_sequences > 0) drafts = speculation_->draft_length(load);
  }
  std::uint32_t budget = limits_.max_num_tokens;
  if (serve_running(plan, budget, drafts)) admit_waiting(plan, budget, admitted);
}

}  // namespace kvist::engine

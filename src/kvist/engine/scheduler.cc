#include "kvist/engine/scheduler.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "kvist/base/check.h"

namespace kvist::engine {
namespace {

/// After a run had to be given up, because sequences beside it lack memory or budget, it may be the same in the next
/// steps.
constexpr std::uint32_t kStepsWithoutRun = 8;

}  // namespace

Scheduler::Scheduler(Limits limits, KvManager& kv, SpeculationPolicy* speculation, DecodeRun* run)
    : limits_(limits), kv_(&kv), speculation_(speculation), run_(run), slots_(limits.max_batch_size, nullptr) {
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
    leave_batch(sequence);
  }
  if (sequence.admitted) {
    slots_[sequence.slot.value()] = nullptr;
    free_slots_.push_back(sequence.slot);
  }
  const RequestId id = sequence.id;
  sequences_.erase(id);
}

void Scheduler::leave_batch(Sequence& sequence) {
  KVIST_CHECK(!sequence.in_run(), "a sequence that is in the run left the batch");
  running_.erase(std::ranges::find(running_, &sequence));
  if (run_ != nullptr) apart_.erase(std::ranges::find(apart_, &sequence));
}

void Scheduler::requeue(Sequence& sequence) {
  KVIST_CHECK(sequence.steps_in_flight == 0 && sequence.pending_samples == 0, "a step of it is under way");
  leave_batch(sequence);
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
  const auto view_of = [this](const Sequence& s) {
    return SequenceView{.request = &s.request,
                        .slot = s.slot,
                        .prompt_tokens = s.prompt_tokens,
                        .known = s.in_run() ? run_->known(s) : s.known(),
                        .planned = s.in_run() ? run_->planned(s) : s.planned,
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

// The most tokens that a step with this budget computes of one sequence. One that is alone takes the time of nobody.
std::uint32_t Scheduler::most_of_one(std::uint32_t budget) const {
  const std::uint32_t threshold = limits_.long_prefill_token_threshold;
  return threshold > 0 && running() + waiting() > 1 ? std::min(budget, threshold) : budget;
}

// The tokens that the next step computes of it, without drafts.
std::uint32_t Scheduler::share_of(const Sequence& sequence, std::uint32_t budget) const {
  return std::min(sequence.behind(), most_of_one(budget));
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
  if (limits_.prefix_when_planned && is_prefill) kv_->commit_planned(sequence);
}

// Only of running sequences, because those that will be admitted are not known yet.
perfmodel::StepLoad Scheduler::load_without_drafts() const {
  perfmodel::StepLoad load;
  std::uint32_t budget = limits_.max_num_tokens;
  for (const Sequence* sequence : running_) {
    const std::uint32_t share = sequence->phase == Phase::kRunning ? share_of(*sequence, budget) : 0;
    budget -= share;
    const std::uint64_t count = share;
    if (count == 0) continue;
    const std::uint64_t context = sequence->planned + count;
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

bool Scheduler::serve_running(StepPlan& plan, std::uint32_t& budget, std::uint32_t drafts) {
  bool enough = true;
  bool nobody_returns = true;
  for (std::size_t i = 0; i < running_.size(); ++i) {  // the size shrinks when one is preempted
    Sequence& sequence = *running_[i];
    if (sequence.phase == Phase::kPreempted) nobody_returns = false;
    if (sequence.phase != Phase::kRunning) continue;
    const std::uint32_t count = share_of(sequence, budget);
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

// Takes out of the run who has to leave, or all if serve_running() would do anything else than serve each in full.
void Scheduler::prepare_run(std::uint32_t budget) {
  growing_.clear();
  run_->find_due_to_begin(growing_);
  std::erase_if(growing_, [this](Sequence* sequence) {
    if (!run_->has_to_leave(*sequence)) return false;
    take_out_of_run(*sequence);
    return true;
  });
  if (run_->empty() || run_changes_nothing(budget)) return;
  for (Sequence* sequence : running_) take_out_of_run(*sequence);
  no_joining_ = kStepsWithoutRun;
}

// Whether there is budget for all of the run and for those that come before its last sequence, and memory for everyone.
bool Scheduler::run_changes_nothing(std::uint32_t budget) const {
  const std::uint32_t block_size = kv_->pool().block_size();
  std::uint64_t tokens = run_->size();
  std::uint64_t blocks = growing_.size();
  for (const Sequence* sequence : apart_) {
    if (sequence->phase != Phase::kRunning) continue;
    // As much as it gets if there is enough for all.
    const std::uint32_t share = std::min(sequence->behind(), most_of_one(~0U));
    if (sequence->admission < run_->last_admission()) tokens += share;
    const std::uint32_t end = sequence->planned + std::min(share, budget);
    if (end > sequence->covered) blocks += (end - sequence->covered + block_size - 1) / block_size;
  }
  return tokens <= budget && blocks <= kv_->pool().free_blocks();
}

bool Scheduler::serve_beside_run(StepPlan& plan, std::uint32_t& budget) {
  plan.in_run = run_->size();
  plan.load.sequences += run_->size();
  plan.load.decode_sequences += run_->size();
  plan.load.kv_tokens_read += run_->contexts();
  plan.load.decode_kv_tokens += run_->contexts();
  budget -= run_->size();
  // Blocks are given out in the order of admission, as without a run.
  const auto by_admission = [](const Sequence* a, const Sequence* b) { return a->admission < b->admission; };
  std::ranges::sort(growing_, by_admission);
  served_.clear();
  std::ranges::merge(apart_, growing_, std::back_inserter(served_), by_admission);
  bool nobody_returns = true;
  for (Sequence* sequence : served_) {
    if (sequence->in_run()) {
      KVIST_CHECK(kv_->try_grow(*sequence, run_->planned_next(*sequence)), "a sequence of the run found no block");
      run_->on_grown(*sequence);
      continue;
    }
    if (sequence->phase == Phase::kPreempted) nobody_returns = false;
    if (sequence->phase != Phase::kRunning) continue;
    const std::uint32_t count = share_of(*sequence, budget);
    if (count == 0) continue;
    KVIST_CHECK(kv_->try_grow(*sequence, sequence->planned + count), "a sequence beside the run found no block");
    give_tokens(*sequence, count, 0, plan);
    budget -= count;
  }
  return nobody_returns;
}

void Scheduler::take_out_of_run(Sequence& sequence) {
  if (!sequence.in_run()) return;
  run_->leave(sequence);
  const auto behind =
      std::ranges::find_if(apart_, [&](const Sequence* other) { return other->admission > sequence.admission; });
  apart_.insert(behind, &sequence);
}

void Scheduler::let_join() {
  if (run_ == nullptr) return;
  if (no_joining_ > 0) {
    --no_joining_;
    return;
  }
  std::erase_if(apart_, [this](Sequence* sequence) { return run_->join(*sequence); });
}

// Only what this step computes counts. With overlap scheduling a request that comes while the last step of another
// one's prompt is under way is not deferred, and finds nothing: TensorRT-LLM asks the requests that are still in their
// context phase, which ends with the plan of that step, and stores the blocks after the next plan.
bool Scheduler::is_being_computed(Sequence& waiting, const StepPlan& plan) const {
  if (!waiting.may_use_cache()) return false;
  kv_->name_prompt(waiting);
  // The last token is always computed, and so is its block.
  const std::size_t most =
      std::min<std::size_t>(waiting.block_hashes.size(), (waiting.certain() - 1) / kv_->pool().block_size());
  if (most == 0) return false;
  // Nearly always no other sequence computes a prompt with the same beginning. Then the pool need not be asked.
  const auto computes_a_twin = [&](const SequenceStep& step) {
    if (!step.is_prefill) return false;
    const Sequence& s = at(step.slot);
    return s.committed_blocks < s.block_hashes.size() && s.block_hashes.front() == waiting.block_hashes.front();
  };
  if (std::ranges::none_of(plan.sequences, computes_a_twin)) return false;
  const std::size_t next = kv_->first_uncached(waiting);
  return next < most && std::ranges::any_of(
                            plan.sequences,
                            [&](const SequenceStep& step) {
                              if (!computes_a_twin(step)) return false;
                              const Sequence& s = at(step.slot);
                              return next >= s.committed_blocks && next < s.block_hashes.size() &&
                                     s.block_hashes[next] == waiting.block_hashes[next];
                            });
}

void Scheduler::admit_waiting(StepPlan& plan, std::uint32_t& budget, std::vector<Sequence*>& admitted) {
  for (auto next = waiting_.begin();
       next != waiting_.end() && budget > 0 && running_.size() < limits_.max_batch_size;) {
    Sequence& sequence = **next;
    if (limits_.prefix_deferral && !sequence.admitted && is_being_computed(sequence, plan)) {
      ++next;
      continue;
    }
    if (!kv_->try_admit(sequence, most_of_one(budget))) return;
    next = waiting_.erase(next);
    sequence.phase = Phase::kRunning;
    running_.push_back(&sequence);
    if (run_ != nullptr) apart_.push_back(&sequence);
    if (!sequence.admitted) {
      sequence.admitted = true;
      sequence.admission = ++admissions_;
      sequence.cached_tokens = sequence.computed;
      sequence.slot = free_slots_.back();
      free_slots_.pop_back();
      slots_[sequence.slot.value()] = &sequence;
      admitted.push_back(&sequence);
    }
    const std::uint32_t count = share_of(sequence, budget);
    KVIST_CHECK(kv_->try_grow(sequence, sequence.planned + count), "an admitted request found no block");
    give_tokens(sequence, count, 0, plan);
    budget -= count;
  }
}

void Scheduler::plan(StepPlan& plan, std::vector<Sequence*>& admitted) {
  plan.sequences.clear();
  plan.in_run = 0;
  plan.load = {};
  std::uint32_t drafts = 0;
  if (speculation_ != nullptr) {
    const perfmodel::StepLoad load = load_without_drafts();
    if (load.decode_sequences > 0) drafts = speculation_->draft_length(load);
  }
  std::uint32_t budget = limits_.max_num_tokens;
  if (run_ != nullptr) prepare_run(budget);
  const bool served =
      run_ == nullptr || run_->empty() ? serve_running(plan, budget, drafts) : serve_beside_run(plan, budget);
  if (served) admit_waiting(plan, budget, admitted);
}

}  // namespace kvist::engine

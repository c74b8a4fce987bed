#include "kvist/engine/scheduler.h"

#include <algorithm>
#include <string>
#include <utility>

#include "kvist/base/check.h"

namespace kvist::engine {

void Scheduler::add(std::unique_ptr<Sequence> sequence) {
  waiting_.push_back(sequence.get());
  const RequestId id = sequence->request.id;
  const bool is_new = sequences_.emplace(id, std::move(sequence)).second;
  KVIST_CHECK(is_new, "request id " + std::to_string(id.value()) + " is in use");
}

Sequence* Scheduler::find(RequestId id) {
  const auto found = sequences_.find(id);
  return found == sequences_.end() ? nullptr : found->second.get();
}

void Scheduler::remove(const Sequence& sequence) {
  KVIST_CHECK(sequence.blocks.empty(), "a sequence with blocks was removed");
  if (sequence.phase == Phase::kWaiting) {
    waiting_.erase(std::ranges::find(waiting_, &sequence));
  } else {
    running_.erase(std::ranges::find(running_, &sequence));
  }
  const RequestId id = sequence.request.id;
  sequences_.erase(id);
}

void Scheduler::give_tokens(Sequence& sequence, StepPlan& plan, std::uint32_t& budget) {
  const std::uint32_t count = std::min(sequence.behind(), budget);
  if (count == 0) return;
  const std::uint32_t first = sequence.planned;
  const std::uint32_t end = first + count;
  kv_->grow(sequence, end);

  const std::uint32_t prompt = sequence.prompt_tokens();
  const bool is_prefill = first < prompt;
  const bool samples = end == sequence.known();
  plan.sequences.push_back(
      {.id = sequence.request.id, .first = first, .count = count, .samples = samples, .is_prefill = is_prefill});
  plan.load.prefill_tokens += is_prefill ? std::min(end, prompt) - first : 0;
  plan.load.sequences += 1;
  plan.load.kv_tokens_read += end;

  sequence.planned = end;
  sequence.steps_in_flight += 1;
  sequence.pending_samples += samples ? 1 : 0;
  budget -= count;
}

StepPlan Scheduler::plan(StepId id, std::vector<const Sequence*>& admitted) {
  StepPlan plan{.id = id, .sequences = {}, .load = {}};
  plan.sequences.reserve(std::min<std::size_t>(running_.size() + waiting_.size(), limits_.max_batch_size));
  std::uint32_t budget = limits_.max_num_tokens;
  for (Sequence* const sequence : running_) {
    if (sequence->phase == Phase::kRunning) give_tokens(*sequence, plan, budget);
  }
  while (!waiting_.empty() && budget > 0 && running_.size() < limits_.max_batch_size) {
    Sequence* const sequence = waiting_.front();
    if (!kv_->try_admit(*sequence)) break;
    waiting_.pop_front();
    sequence->phase = Phase::kRunning;
    running_.push_back(sequence);
    admitted.push_back(sequence);
    give_tokens(*sequence, plan, budget);
  }
  return plan;
}

}  // namespace kvist::engine

#include "kvist/engine/decode_run.h"

#include <algorithm>
#include <utility>

#include "kvist/base/check.h"

namespace kvist::engine {
namespace {

/// A sequence that leaves again before so many steps is not worth the joining.
constexpr std::uint64_t kLeastSteps = 4;

}  // namespace

bool DecodeRun::join(Sequence& sequence) {
  if (sequence.phase != Phase::kRunning || sequence.in_run() || !sequence.decodes() || sequence.speculating ||
      sequence.planned >= sequence.final_computed || sequence.known() != sequence.planned + 1)
    return false;
  const std::optional<std::uint64_t> left = answers_->tokens_left(sequence.slot);
  if (!left) return false;
  // The step whose sample is the answer's last: the first step in the run samples token number planned + 2.
  const std::uint64_t tokens = std::min<std::uint64_t>(*left, sequence.output_limit - sequence.output_tokens());
  const std::uint64_t first_step = begun_ + 1;
  const std::uint64_t until_last = std::uint64_t{sequence.certain()} + tokens - sequence.planned;
  if (until_last < kLeastSteps + 2) return false;

  sequence.run = {
      .place = size(), .first = sequence.planned, .first_step = first_step, .last_step = first_step + until_last - 2};
  const std::uint64_t to_block_end = block_size_ - sequence.planned % block_size_;
  last_admission_ = std::max(last_admission(), sequence.admission);
  members_.push_back(&sequence);
  due_to_begin_.push_back(0);
  on_grown(sequence);
  due_to_end_.push_back(first_step + to_block_end - 1);
  context_ += static_cast<std::int64_t>(sequence.run.first) - static_cast<std::int64_t>(first_step);
  joining_.push_back(sequence.id);
  return true;
}

void DecodeRun::on_grown(const Sequence& sequence) {
  const RunPlace& run = sequence.run;
  due_to_begin_[run.place] = std::min(run.last_step, run.first_step + (sequence.covered - run.first));
}

void DecodeRun::leave(Sequence& sequence) {
  KVIST_CHECK(sequence.in_run(), "a sequence leaves a run that it is not in");
  take_tokens(sequence);
  sequence.planned = planned(sequence);
  if (ended_ >= sequence.run.first_step) leaving_.push_back(sequence.id);
  if (begun_ < sequence.run.first_step) std::erase(joining_, sequence.id);
  take_out_of_steps(sequence);

  context_ -= static_cast<std::int64_t>(sequence.run.first) - static_cast<std::int64_t>(sequence.run.first_step);
  const std::uint32_t place = sequence.run.place;
  sequence.run = {};
  if (place + 1U < members_.size()) {
    members_[place] = members_.back();
    due_to_begin_[place] = due_to_begin_.back();
    due_to_end_[place] = due_to_end_.back();
    members_[place]->run.place = place;
  }
  members_.pop_back();
  due_to_begin_.pop_back();
  due_to_end_.pop_back();
}

// From here on these steps have it like any step has a sequence.
void DecodeRun::take_out_of_steps(Sequence& sequence) {
  for (std::uint64_t number = std::max(ended_ + 1, sequence.run.first_step); number <= begun_; ++number) {
    Step& step = under_way_[number - ended_ - 1];
    --step.size;
    if (number == sequence.run.first_step) std::erase(step.joined, sequence.id);
    step.taken_out.push_back(
        {.id = sequence.id,
         .slot = sequence.slot,
         .first = sequence.run.first + static_cast<std::uint32_t>(number - sequence.run.first_step),
         .count = 1,
         .drafts = 0,
         .samples = true,
         .is_prefill = false});
    ++sequence.steps_in_flight;
    ++sequence.pending_samples;
  }
}

void DecodeRun::find_due_to_begin(std::vector<Sequence*>& due) const {
  for (std::size_t i = 0; i < due_to_begin_.size(); ++i)
    if (due_to_begin_[i] <= begun_ + 1) due.push_back(members_[i]);
}

void DecodeRun::on_begun() {
  ++begun_;
  under_way_.push_back({.size = size(), .joined = std::exchange(joining_, {}), .taken_out = {}});
}

DecodeRun::Step DecodeRun::on_ended(std::vector<Sequence*>& due) {
  KVIST_CHECK(!under_way_.empty(), "a step of the run ends that has not begun");
  Step step = std::move(under_way_.front());
  under_way_.pop_front();
  ++ended_;
  for (std::size_t i = 0; i < due_to_end_.size(); ++i)
    if (due_to_end_[i] <= ended_) due.push_back(members_[i]);
  return step;
}

void DecodeRun::take_tokens(Sequence& sequence) {
  const auto steps = static_cast<std::uint32_t>(steps_of(sequence, ended_));
  if (steps == 0) return;
  const std::uint32_t missing = sequence.run.first + steps + 1 - sequence.certain();
  answers_->take(sequence.slot, missing, sequence.tokens);
  sequence.untold_tokens += missing;
  sequence.computed = sequence.run.first + steps;
}

void DecodeRun::catch_up(Sequence& sequence) {
  take_tokens(sequence);
  due_to_end_[sequence.run.place] += block_size_;
}

SampledTokens DecodeRun::sample(const SequenceStep& step) {
  std::vector<TokenId> tokens;
  answers_->take(step.slot, 1, tokens);
  return {.id = step.id, .tokens = {tokens.front()}, .ends = false, .drafted = 0};
}

}  // namespace kvist::engine

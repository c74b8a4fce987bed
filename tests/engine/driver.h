// Drives a core in virtual time and checks what must hold for every plan and output.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "engine/event_replay.h"
#include "kvist/engine/core.h"

namespace kvist::engine {

/// The outputs of one request.
struct Seen {
  std::vector<TokenId> tokens;
  std::optional<FinishReason> finish;
  std::uint32_t prompt_tokens = 0;
  std::uint32_t cached_tokens = 0;
  std::uint32_t outputs = 0;
  TimePoint first_token;
  TimePoint last_output;
};

class SteppedCore {
 public:
  SteppedCore(const CoreOptions& options, Executor& executor, std::unique_ptr<SpeculationPolicy> speculation = nullptr)
      : core(options, executor, std::move(speculation)), options_(options), executor_(&executor) {}

  /// Plans one step if the core has one.
  bool begin() {
    StepPlan plan;
    if (!core.begin_step(now, plan)) return false;
    check(plan);
    // Steps compute one after the other: the second of two under way starts when the first has ended.
    const TimePoint start = under_way.empty() ? now : std::max(now, under_way.back().second);
    under_way.emplace_back(plan, start + executor_->duration(plan).value());
    plans.push_back(std::move(plan));
    EXPECT_LE(under_way.size(), options_.max_steps_in_flight);
    return true;
  }

  /// Ends the oldest step under way.
  void end() {
    ASSERT_FALSE(under_way.empty());
    auto [plan, at] = std::move(under_way.front());
    under_way.pop_front();
    now = at;
    executor_->finish(plan, result_);
    core.end_step(plan, result_, outputs_);
    take(outputs_);
  }

  /// Begins what can begin, then ends the oldest step. False when there is nothing to do.
  bool step() {
    while (begin()) {
    }
    if (under_way.empty()) return false;
    end();
    return true;
  }

  void run(int steps) {
    for (int i = 0; i < steps; ++i) ASSERT_TRUE(step());
  }
  void run_until_idle() {
    while (step()) {
    }
    take_outputs();
    EXPECT_TRUE(core.idle());
    EXPECT_EQ(core.stats().kv_blocks_used, 0U);
    check_events();
  }

  /// What has happened outside of steps.
  void take_outputs() {
    core.take_outputs(outputs_);
    take(outputs_);
  }
  void take(const StepOutputs& outputs) {
    std::set<RequestId> in_this_step;
    for (const RequestOutput& output : outputs.outputs) {
      EXPECT_TRUE(in_this_step.insert(output.id).second) << "two outputs in one step: " << output.id.value();
      Seen& request = seen[output.id];
      EXPECT_FALSE(request.finish) << "an output after the last: " << output.id.value();
      if (!output.tokens.empty() && request.tokens.empty()) request.first_token = now;
      request.tokens.insert(request.tokens.end(), output.tokens.begin(), output.tokens.end());
      EXPECT_EQ(output.output_tokens, request.tokens.size());
      request.finish = output.finish;
      request.prompt_tokens = output.prompt_tokens;
      request.cached_tokens = output.cached_tokens;
      request.last_output = now;
      ++request.outputs;
    }
    for (const kv::KvEvent& event : outputs.events) {
      replay.apply(event);
      events.push_back(event);
    }
  }

  /// Replaying all events must give what the core can find now.
  void check_events() {
    take_outputs();
    EXPECT_EQ(replay.copies(), sorted(core.findable_blocks()));
  }

  Core core;
  TimePoint now;
  std::deque<std::pair<StepPlan, TimePoint>> under_way;
  std::vector<StepPlan> plans;
  std::map<RequestId, Seen> seen;
  std::vector<kv::KvEvent> events;
  EventReplay replay;

 private:
  void check(const StepPlan& plan) const {
    std::uint64_t tokens = 0;
    perfmodel::StepLoad load;
    std::set<RequestId> ids;
    std::set<SlotId> slots;
    for (const SequenceStep& step : plan.sequences) {
      EXPECT_TRUE(ids.insert(step.id).second) << "twice in one step";
      EXPECT_TRUE(slots.insert(step.slot).second) << "two requests in one slot";
      EXPECT_LT(step.slot.value(), options_.max_batch_size);
      EXPECT_GT(step.count, step.drafts);
      tokens += step.count;
      const std::uint64_t end = step.first + step.count;
      load.sequences += 1;
      load.kv_tokens_read += end;
      if (step.is_prefill) {
        load.prefill_tokens += step.count;
        for (std::uint64_t context = step.first + 1; context <= end; ++context) load.prefill_pairs += context;
      } else {
        load.decode_sequences += 1;
        load.decode_kv_tokens += end;
        load.draft_tokens += step.drafts;
        load.draft_passes = std::max(load.draft_passes, step.drafts);
      }
    }
    EXPECT_LE(tokens, options_.max_num_tokens);
    EXPECT_LE(plan.sequences.size(), options_.max_batch_size);
    EXPECT_EQ(plan.load, load);
    EXPECT_LE(core.stats().kv_blocks_used, options_.kv_blocks);
  }

  CoreOptions options_;
  Executor* executor_;
  StepResult result_;  // both used again and again, as drivers do
  StepOutputs outputs_;
};

/// A prompt of `tokens` different tokens from `first` on.
inline std::vector<TokenId> prompt_of(std::uint32_t tokens, std::uint32_t first = 0) {
  std::vector<TokenId> prompt;
  for (std::uint32_t i = 0; i < tokens; ++i) prompt.emplace_back(first + i);
  return prompt;
}

inline Request request_of(std::uint64_t id, std::vector<TokenId> prompt, std::uint32_t max_tokens) {
  return {.id = RequestId(id),
          .prompt = std::move(prompt),
          .max_tokens = max_tokens,
          .seed = id,
          .ignore_eos = false,
          .cache_salt = {}};
}

}  // namespace kvist::engine

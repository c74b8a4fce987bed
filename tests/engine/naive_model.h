// The engine as a few loops over whole token lists, for comparison: no blocks, no budget, no pool.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/scripted_executor.h"
#include "kvist/engine/core.h"

namespace kvist::engine {

/// Knows for each request its right answer, and for the cache which whole prefixes have been computed. It follows the
/// plans of the core and checks each of them by the rules of the scheduler.
class NaiveModel {
 public:
  explicit NaiveModel(CoreOptions options) : options_(std::move(options)) {}

  void submit(const Request& request, std::uint32_t length) {
    State state;
    state.request = request;
    const auto prompt = static_cast<std::uint32_t>(request.prompt.size());
    state.limit = std::min(
        {request.max_tokens, options_.max_model_len - prompt, request.ignore_eos ? request.max_tokens : length});
    state.reason = !request.ignore_eos && state.limit == length ? FinishReason::kStop : FinishReason::kLength;
    state.cap = prompt + std::min(request.max_tokens, options_.max_model_len - prompt) - 1;
    state.known = request.prompt;
    states_.emplace(request.id, std::move(state));
    waiting_.push_back(request.id);
  }

  void abort(RequestId id) {
    const auto found = states_.find(id);
    if (found == states_.end() || found->second.ended) return;
    found->second.ended = true;
    found->second.reason = FinishReason::kAborted;
    std::erase(waiting_, id);
  }

  /// Checks a plan: who is in it, in which order, with how many tokens.
  void on_plan(const StepPlan& plan) {
    std::uint32_t budget = options_.max_num_tokens;
    std::size_t index = 0;
    for (const RequestId id : running_) {
      State& state = states_.at(id);
      if (state.ended || behind(state) == 0 || budget == 0) continue;
      ASSERT_LT(index, plan.sequences.size()) << "request " << id.value() << " was left out";
      ASSERT_EQ(plan.sequences[index].id, id);
      follow(plan.sequences[index++], state, budget);
    }
    for (; index < plan.sequences.size(); ++index) {
      ASSERT_FALSE(waiting_.empty());
      const RequestId id = waiting_.front();
      ASSERT_EQ(plan.sequences[index].id, id) << "not first come, first served";
      waiting_.pop_front();
      running_.push_back(id);
      State& state = states_.at(id);
      state.planned = plan.sequences[index].first;
      state.cached = state.planned;
      longest_cached(state);
      ASSERT_LT(running_.size(), options_.max_batch_size + 1U);
      follow(plan.sequences[index], state, budget);
    }
    blocked_ = !waiting_.empty() && budget > 0 && running_.size() < options_.max_batch_size;
  }

  /// The step has ended: its samples are known, what it computed is in the cache.
  void on_end(const StepPlan& plan) {
    for (const SequenceStep& step : plan.sequences) {
      State& state = states_.at(step.id);
      --state.under_way;
      if (step.samples) --state.pending;
      if (step.samples && !state.ended) {
        state.known.push_back(
            scripted_token(state.request.seed, static_cast<std::uint32_t>(state.known.size() - prompt(state))));
        state.ended = state.known.size() - prompt(state) == state.limit;
      }
      remember(state, std::min<std::size_t>(step.first + step.count, state.known.size()));
      if (state.ended && state.under_way == 0) std::erase(running_, step.id);
    }
    std::erase_if(running_, [this](RequestId id) { return states_.at(id).ended && states_.at(id).under_way == 0; });
  }

  /// After an abort between steps.
  void on_boundary() {
    std::erase_if(running_, [this](RequestId id) { return states_.at(id).ended && states_.at(id).under_way == 0; });
  }

  [[nodiscard]] std::vector<TokenId> answer(RequestId id) const {
    const State& state = states_.at(id);
    return {state.known.begin() + static_cast<std::ptrdiff_t>(prompt(state)), state.known.end()};
  }
  [[nodiscard]] FinishReason reason(RequestId id) const { return states_.at(id).reason; }
  [[nodiscard]] std::uint32_t cached(RequestId id) const { return states_.at(id).cached; }
  /// What the cache would give at admission if it never forgot anything.
  [[nodiscard]] std::uint32_t best_cached(RequestId id) const { return states_.at(id).best_cached; }
  /// Different prefixes that were ever complete.
  [[nodiscard]] std::size_t prefixes() const { return prefixes_.size(); }
  /// Whether the last plan left a waiting request outside although there was a slot and budget for it.
  [[nodiscard]] bool blocked() const { return blocked_; }

 private:
  struct State {
    Request request;
    std::uint32_t limit = 0;  // tokens of the answer
    FinishReason reason = FinishReason::kLength;
    std::uint32_t cap = 0;  // tokens ever computed, at most, as long as the end of the answer is not known
    std::vector<TokenId> known;
    std::uint32_t planned = 0;
    std::uint32_t pending = 0;
    std::uint32_t under_way = 0;
    std::uint32_t cached = 0;
    std::uint32_t best_cached = 0;
    bool ended = false;
  };
  using Prefix = std::pair<std::string, std::vector<TokenId>>;  // salt and tokens

  static std::size_t prompt(const State& state) { return state.request.prompt.size(); }
  static std::uint32_t known_count(const State& state) {
    return static_cast<std::uint32_t>(state.known.size()) + state.pending;
  }
  static std::uint32_t behind(const State& state) { return std::min(known_count(state), state.cap) - state.planned; }

  void follow(const SequenceStep& step, State& state, std::uint32_t& budget) {
    EXPECT_EQ(step.first, state.planned);
    EXPECT_EQ(step.count, std::min(behind(state), budget));
    EXPECT_EQ(step.samples, step.first + step.count == known_count(state));
    EXPECT_EQ(step.is_prefill, step.first < prompt(state));
    budget -= step.count;
    state.planned += step.count;
    state.pending += step.samples ? 1 : 0;
    ++state.under_way;
  }

  void longest_cached(State& state) const {
    std::uint32_t tokens = 0;
    while (tokens + options_.block_size < prompt(state) && contains(state, tokens + options_.block_size)) {
      tokens += options_.block_size;
    }
    state.best_cached = tokens;
  }
  [[nodiscard]] bool contains(const State& state, std::uint32_t tokens) const {
    return prefixes_.contains(Prefix(state.request.cache_salt, {state.known.begin(), state.known.begin() + tokens}));
  }
  void remember(const State& state, std::size_t tokens) {
    for (std::size_t end = options_.block_size; end <= tokens; end += options_.block_size) {
      prefixes_.emplace(
          state.request.cache_salt,
          std::vector<TokenId>(state.known.begin(), state.known.begin() + static_cast<std::ptrdiff_t>(end)));
    }
  }

  CoreOptions options_;
  std::map<RequestId, State> states_;
  std::deque<RequestId> waiting_;
  std::vector<RequestId> running_;
  std::set<Prefix> prefixes_;
  bool blocked_ = false;
};

}  // namespace kvist::engine

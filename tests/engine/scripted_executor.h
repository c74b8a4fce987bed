// An executor for tests: every answer is known beforehand, and misuse by the core fails the test.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "kvist/base/random.h"
#include "kvist/engine/executor.h"

namespace kvist::engine {

/// Token `index` of the answer to a request with this seed.
inline TokenId scripted_token(std::uint64_t seed, std::uint32_t index) {
  return TokenId(1'000 + static_cast<std::uint32_t>(mix_seed({seed, index}) % 1'000));
}

/// Answers with scripted tokens; an answer ends at the length given for its request, or never. Every step takes 1 ms.
class ScriptedExecutor final : public Executor, public AnswerSource {
 public:
  /// `gives_ahead`: it is an AnswerSource as well.
  explicit ScriptedExecutor(bool gives_ahead = false) : gives_ahead_(gives_ahead) {}

  void set_length(RequestId id, std::uint32_t tokens) { lengths_[id] = tokens; }

  /// The first so many drafts of every step are right.
  void set_accepted(std::uint32_t drafts) { accepted_ = drafts; }

  void on_admit(SlotId slot, const Request& request, std::span<const TokenId> prompt) override {
    EXPECT_FALSE(prompt.empty() && request.named_tokens == 0);
    EXPECT_TRUE(live_.emplace(slot, State{request.id, request.seed, 0, request.ignore_eos}).second)
        << "in use: slot " << slot.value();
    admitted_.push_back(request.id);
  }
  void on_release(SlotId slot) override { EXPECT_EQ(live_.erase(slot), 1U) << "free: slot " << slot.value(); }
  [[nodiscard]] std::optional<Duration> duration(const StepPlan& /*plan*/) override {
    return std::chrono::milliseconds(1);
  }
  void finish(const StepPlan& plan, StepResult& result) override {
    result.sampled.clear();
    for (const SequenceStep& step : plan.sequences) {
      const auto found = live_.find(step.slot);
      if (found == live_.end() || found->second.id != step.id) {
        ADD_FAILURE() << "computed after its release: " << step.id.value();
        continue;
      }
      if (step.samples) result.sampled.push_back(sample(step, found->second));
    }
  }

  [[nodiscard]] AnswerSource* answers() override { return gives_ahead_ ? this : nullptr; }
  [[nodiscard]] std::optional<std::uint64_t> tokens_left(SlotId slot) const override {
    const State& state = live_.at(slot);
    const auto length = lengths_.find(state.id);
    if (state.ignore_eos || length == lengths_.end()) return std::numeric_limits<std::uint64_t>::max();
    return length->second - std::min(state.sampled, length->second);
  }
  void take(SlotId slot, std::uint32_t count, std::vector<TokenId>& tokens) override {
    EXPECT_LT(count, tokens_left(slot).value()) << "the last token is sampled in its step";
    State& state = live_.at(slot);
    for (std::uint32_t i = 0; i < count; ++i) tokens.push_back(scripted_token(state.seed, state.sampled++));
  }

  /// Requests between on_admit() and on_release().
  [[nodiscard]] std::size_t live() const { return live_.size(); }
  /// In the order of admission.
  [[nodiscard]] const std::vector<RequestId>& admitted() const { return admitted_; }

 private:
  struct State {
    RequestId id;
    std::uint64_t seed;
    std::uint32_t sampled;
    bool ignore_eos;
  };

  [[nodiscard]] SampledTokens sample(const SequenceStep& step, State& state) const {
    SampledTokens sampled{
        .id = step.id, .tokens = {}, .ends = false, .drafted = static_cast<std::uint8_t>(step.drafts)};
    const auto length = lengths_.find(step.id);
    for (std::uint32_t i = 0; i <= std::min(step.drafts, accepted_) && !sampled.ends; ++i) {
      sampled.tokens.push_back(scripted_token(state.seed, state.sampled++));
      sampled.ends = !state.ignore_eos && length != lengths_.end() && state.sampled >= length->second;
    }
    return sampled;
  }

  bool gives_ahead_;
  std::map<SlotId, State> live_;
  std::map<RequestId, std::uint32_t> lengths_;
  std::vector<RequestId> admitted_;
  std::uint32_t accepted_ = 0;
};

}  // namespace kvist::engine

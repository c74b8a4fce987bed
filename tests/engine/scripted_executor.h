// An executor for tests: every answer is known beforehand, and misuse by the core fails the test.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "kvist/base/random.h"
#include "kvist/engine/executor.h"

namespace kvist::engine {

/// Token `index` of the answer to a request with this seed.
inline TokenId scripted_token(std::uint64_t seed, std::uint32_t index) {
  return TokenId(1'000 + static_cast<std::uint32_t>(mix_seed({seed, index}) % 1'000));
}

/// Answers with scripted tokens; an answer ends at the length given for its request, or never. Every step takes 1 ms.
class ScriptedExecutor final : public Executor {
 public:
  void set_length(RequestId id, std::uint32_t tokens) { lengths_[id] = tokens; }

  void on_admit(const Request& request) override {
    EXPECT_TRUE(live_.emplace(request.id, State{&request, 0}).second) << "admitted twice: " << request.id.value();
    admitted_.push_back(request.id);
  }
  void on_release(RequestId id) override { EXPECT_EQ(live_.erase(id), 1U) << "released while absent: " << id.value(); }
  [[nodiscard]] std::optional<Duration> duration(const StepPlan& /*plan*/) override {
    return std::chrono::milliseconds(1);
  }
  [[nodiscard]] StepResult finish(const StepPlan& plan) override {
    StepResult result;
    for (const SequenceStep& step : plan.sequences) {
      const auto found = live_.find(step.id);
      if (found == live_.end()) {
        ADD_FAILURE() << "computed after its release: " << step.id.value();
        continue;
      }
      if (!step.samples) continue;
      State& state = found->second;
      const TokenId token = scripted_token(state.request->seed, state.sampled++);
      const auto length = lengths_.find(step.id);
      result.sampled.push_back(
          {.id = step.id, .tokens = {token}, .ends = length != lengths_.end() && state.sampled >= length->second});
    }
    return result;
  }

  /// Requests between on_admit() and on_release().
  [[nodiscard]] std::size_t live() const { return live_.size(); }
  /// In the order of admission.
  [[nodiscard]] const std::vector<RequestId>& admitted() const { return admitted_; }

 private:
  struct State {
    const Request* request;
    std::uint32_t sampled;
  };
  std::map<RequestId, State> live_;
  std::map<RequestId, std::uint32_t> lengths_;
  std::vector<RequestId> admitted_;
};

}  // namespace kvist::engine

// The executor that computes nothing: steps take modelled time, tokens are a seeded stream of readable text.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "kvist/engine/executor.h"
#include "kvist/perfmodel/step_time_model.h"
#include "kvist/spec/deployment.h"
#include "kvist/tokenizer/tokenizer.h"

namespace kvist::engine {

/// Durations are those of perfmodel::StepTimeModel, divided by time_scale. Each answer is prose from the request's
/// seed. Its length, including the end-of-turn token, is drawn from the same seed (spec::OutputLengthSpec) and cut at
/// max_tokens. The request's min_tokens is honoured, and its logprobs are made up, from its seed and the position.
/// Whether a draft is accepted is drawn from the seed and the position in the answer, and changes only the number of
/// tokens per step. So an answer depends on its request alone, never on the worker.
class TimedExecutor final : public Executor {
 public:
  struct Options {
    perfmodel::StepTimeModel step_time;
    spec::OutputLengthSpec output_length;
    double time_scale = 1;
    std::vector<double> acceptance = {};  ///< spec::SpeculationSpec::acceptance; empty: no draft is ever accepted
  };
  /// Requires: `tokenizer` outlives this object.
  TimedExecutor(Options options, const tokenizer::Tokenizer& tokenizer);
  ~TimedExecutor() override;

  void on_admit(SlotId slot, const Request& request, std::span<const TokenId> prompt) override;
  void on_release(SlotId slot) override;
  [[nodiscard]] std::optional<Duration> duration(const StepPlan& plan) override;
  void finish(const StepPlan& plan, StepResult& result) override;
  [[nodiscard]] AnswerSource* answers() override;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvist::engine

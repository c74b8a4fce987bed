// The executor that computes nothing: steps take the time a model says, tokens are a seeded stream of readable text.
#pragma once

#include <memory>
#include <optional>

#include "kvist/engine/executor.h"
#include "kvist/spec/deployment.h"
#include "kvist/text/tokenizer.h"

namespace kvist::engine {

/// Durations come from perfmodel::step_time divided by time_scale. Each answer is prose from the request's seed; its
/// length, end-of-turn token included, is drawn from the same seed (spec::OutputLengthSpec) and cut at max_tokens. So
/// an answer depends on its request alone, never on the worker that gives it.
class TimedExecutor final : public Executor {
 public:
  struct Options {
    spec::StepTimeSpec step_time;
    spec::OutputLengthSpec output_length;
    double time_scale = 1;
  };
  /// `tokenizer` must outlive it.
  TimedExecutor(Options options, const text::Tokenizer& tokenizer);
  ~TimedExecutor() override;

  void on_admit(const Request& request) override;
  void on_release(RequestId id) override;
  [[nodiscard]] std::optional<Duration> duration(const StepPlan& plan) override;
  [[nodiscard]] StepResult finish(const StepPlan& plan) override;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace kvist::engine

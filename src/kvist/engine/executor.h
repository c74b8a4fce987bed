// The interface of what computes a step.
#pragma once

#include <optional>
#include <span>

#include "kvist/base/time.h"
#include "kvist/engine/answer_source.h"
#include "kvist/engine/request.h"
#include "kvist/engine/step.h"

namespace kvist::engine {

/// Computes steps. It keeps state of its own per request, by slot, between on_admit() and on_release(). The driver runs
/// on the worker's event loop, or in the simulation's event queue. Only finish() may block, in an executor that really
/// computes; the driver calls it on its device thread.
class Executor {
 public:
  virtual ~Executor() = default;

  /// A request was admitted for the first time and has this slot until on_release(). The engine has moved the prompt
  /// out of `request`; both references are valid during this call only. A preempted request keeps its slot; later a
  /// step computes its tokens again from the first on.
  virtual void on_admit(SlotId slot, const Request& request, std::span<const TokenId> prompt) = 0;
  /// A request left the engine. Its slot may be given to another.
  virtual void on_release(SlotId slot) = 0;
  /// The modelled duration of the step, after which the driver calls finish(); nothing if finish() itself computes.
  [[nodiscard]] virtual std::optional<Duration> duration(const StepPlan& plan) = 0;
  /// Replaces the content of `result` by the step's sampled tokens, and reuses its memory. Called once per plan, in
  /// order.
  virtual void finish(const StepPlan& plan, StepResult& result) = 0;
  /// Null if the answers are only known step by step. Otherwise it lives as long as the executor.
  [[nodiscard]] virtual AnswerSource* answers() { return nullptr; }
};

}  // namespace kvist::engine

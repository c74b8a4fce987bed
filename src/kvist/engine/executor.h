// Who computes a step.
#pragma once

#include <optional>
#include <span>

#include "kvist/base/time.h"
#include "kvist/engine/request.h"
#include "kvist/engine/step.h"

namespace kvist::engine {

/// Computes steps; keeps per-request state of its own, by slot, between on_admit() and on_release(). Driven by one
/// driver: the worker's event loop live, the event queue in the simulation. Nothing here blocks but finish() of an
/// executor that really computes, which the driver calls on its device thread.
class Executor {
 public:
  virtual ~Executor() = default;

  /// A request entered the running batch for the first time and has this slot until on_release(). The engine has taken
  /// the prompt out of `request`; both are good for this call only. A request that is preempted keeps its slot: when
  /// it comes back, a step simply computes its tokens from the first on again.
  virtual void on_admit(SlotId slot, const Request& request, std::span<const TokenId> prompt) = 0;
  /// A request left the engine; its slot may be given to another.
  virtual void on_release(SlotId slot) = 0;
  /// How long this step takes, where a model says so (the driver calls finish() that much later); nothing where
  /// finish() itself computes and takes as long as it takes.
  [[nodiscard]] virtual std::optional<Duration> duration(const StepPlan& plan) = 0;
  /// Puts the step's sampled tokens into `result`, whose content is replaced and whose memory is kept. Called once per
  /// plan, in order.
  virtual void finish(const StepPlan& plan, StepResult& result) = 0;
};

}  // namespace kvist::engine

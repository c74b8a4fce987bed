// Who computes a step.
#pragma once

#include <optional>

#include "kvist/base/time.h"
#include "kvist/engine/request.h"
#include "kvist/engine/step.h"

namespace kvist::engine {

/// Computes steps; keeps per-request state of its own between on_admit() and on_release(). Driven by one driver: the
/// worker's event loop live, the event queue in the simulation. Nothing here blocks but finish() of an executor that
/// really computes, which the driver calls on its device thread.
class Executor {
 public:
  virtual ~Executor() = default;

  /// A request entered the running batch for the first time; `request` outlives the call only until on_release().
  virtual void on_admit(const Request& request) = 0;
  /// A request left the engine.
  virtual void on_release(RequestId id) = 0;
  /// How long this step takes, where a model says so (the driver calls finish() that much later); nothing where
  /// finish() itself computes and takes as long as it takes.
  [[nodiscard]] virtual std::optional<Duration> duration(const StepPlan& plan) = 0;
  /// The step's sampled tokens. Called once per plan, in order.
  [[nodiscard]] virtual StepResult finish(const StepPlan& plan) = 0;
};

}  // namespace kvist::engine

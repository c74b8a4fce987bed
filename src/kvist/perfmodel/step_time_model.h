// How long a worker's steps take, and what it loses outside of its engine.
#pragma once

#include <cstdint>
#include <memory>

#include "kvist/base/error.h"
#include "kvist/base/time.h"
#include "kvist/perfmodel/step_load.h"
#include "kvist/spec/deployment.h"

namespace kvist::perfmodel {

/// The model of time of one worker: linear (spec::StepTimeSpec) or that of a GPU profile. Immutable, cheap to copy; any
/// thread.
class StepTimeModel {
 public:
  /// Of a worker without a profile.
  explicit StepTimeModel(const spec::StepTimeSpec& linear);
  /// Of any worker: its profile where it names one. Errors: unknown names, with those there are; a file that does not
  /// read.
  [[nodiscard]] static Result<StepTimeModel> of(const spec::WorkerSpec& worker);

  /// Zero for an empty step, above zero for any other.
  [[nodiscard]] Duration step_time(const StepLoad& load) const;
  /// Time between a request's arrival at the worker and its arrival at the engine's queue (front end, tokenizing,
  /// host): depends on the sequences the worker has running and on the prompt, and scatters; the scatter is drawn from
  /// `seed`, the request's own, so that a request is late by the same everywhere. Zero for a linear model.
  [[nodiscard]] Duration intake_delay(std::uint32_t running, std::uint64_t prompt_tokens, std::uint64_t seed) const;

 private:
  struct Profile;
  explicit StepTimeModel(std::shared_ptr<const Profile> profile);
  spec::StepTimeSpec linear_;
  std::shared_ptr<const Profile> profile_;  // null: linear
};

/// The worker with everything its profile decides filled in: `kv_blocks` from the memory plan where the file leaves it
/// open, engine behaviour where it is not set. What a service, a simulation and a report use. A worker without a
/// profile comes back as it is.
[[nodiscard]] Result<spec::WorkerSpec> resolve(const spec::WorkerSpec& worker);

}  // namespace kvist::perfmodel

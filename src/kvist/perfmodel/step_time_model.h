// How long a worker's steps take, and what it loses outside of its engine.
#pragma once

#include <cstdint>
#include <memory>

#include "kvist/base/error.h"
#include "kvist/base/time.h"
#include "kvist/perfmodel/step_load.h"
#include "kvist/spec/deployment.h"

namespace kvist::perfmodel {

/// What the way of a request from its arrival to the engine's queue depends on.
struct IntakeLoad {
  std::uint32_t running = 0;        ///< sequences in the worker's batch
  Duration last_decode_step{};      ///< of the worker's latest step without prefill; zero before the first
  std::uint64_t prompt_tokens = 0;  ///< of the request
  std::uint64_t seed = 0;           ///< of the request: a request is late by the same everywhere
};

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
  /// Time between a request's arrival at the worker and its arrival at the engine's queue: front end, tokenizing, hops
  /// that the engine's loop clocks. Part of it scatters. Zero for a linear model.
  [[nodiscard]] Duration intake_delay(const IntakeLoad& load) const;

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

// The duration of a worker's steps, and its delays outside of the engine.
#pragma once

#include <cstdint>
#include <memory>

#include "kvist/base/error.h"
#include "kvist/base/time.h"
#include "kvist/perfmodel/step_load.h"
#include "kvist/spec/deployment.h"

namespace kvist::perfmodel {

/// What the time from a request's arrival to the engine's queue depends on.
struct IntakeLoad {
  std::uint32_t running = 0;        ///< sequences in the worker's batch
  Duration last_decode_step{};      ///< of the worker's latest step without prefill; zero before the first
  std::uint64_t prompt_tokens = 0;  ///< of the request
  std::uint64_t seed = 0;           ///< of the request, so that its delay is the same on every worker
};

/// The step-time model of one worker: linear (spec::StepTimeSpec) or that of a GPU profile. Immutable, cheap to copy;
/// any thread.
class StepTimeModel {
 public:
  /// The model of a worker without a profile.
  explicit StepTimeModel(const spec::StepTimeSpec& linear);
  /// The model of any worker; its profile's if it has one. Errors: unknown names, with the known ones; an unreadable
  /// file.
  [[nodiscard]] static Result<StepTimeModel> of(const spec::WorkerSpec& worker);

  /// Zero for an empty step, above zero for any other.
  [[nodiscard]] Duration step_time(const StepLoad& load) const;
  /// The time between a request's arrival at the worker and at the engine's queue: front end, tokenizing, and hops that
  /// take steps of the engine's loop. Part of it is random. Zero for a linear model.
  [[nodiscard]] Duration intake_delay(const IntakeLoad& load) const;

 private:
  struct Profile;
  explicit StepTimeModel(std::shared_ptr<const Profile> profile);
  spec::StepTimeSpec linear_;
  std::shared_ptr<const Profile> profile_;  // null: linear
};

/// The worker with all settings that follow from its profile: `kv_blocks` from the memory plan and the engine's
/// settings, as far as the file does not set them. Services, simulations and reports use the resolved worker. A worker
/// without a profile is returned unchanged. Errors: a name that nothing has, of a profile's parts or a drafter; what
/// the profile says does not fit the file.
[[nodiscard]] Result<spec::WorkerSpec> resolve(const spec::WorkerSpec& worker);

}  // namespace kvist::perfmodel

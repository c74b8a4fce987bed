#include "kvist/perfmodel/step_time_model.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kvist/perfmodel/gpu_combination.h"
#include "kvist/perfmodel/gpu_step_time.h"

namespace kvist::perfmodel {

namespace {

/// Linear in its five terms (spec::StepTimeSpec). Zero for an empty step.
Duration linear_step_time(const spec::StepTimeSpec& model, const StepLoad& load) {
  if (load.sequences == 0) return Duration::zero();
  // Whole nanoseconds are integers, so that sums are exact. Only the terms with sub-nanosecond coefficients are
  // rounded, once.
  const Duration kv_read(std::llround(model.per_kv_token_ns * static_cast<double>(load.kv_tokens_read)));
  const Duration attention(std::llround(model.per_prefill_pair_ns * static_cast<double>(load.prefill_pairs)));
  return model.fixed + model.per_prefill_token * static_cast<std::int64_t>(load.prefill_tokens) +
         model.per_sequence * static_cast<std::int64_t>(load.sequences) + kv_read + attention;
}

}  // namespace

struct StepTimeModel::Profile {
  GpuStepTime times;
};

StepTimeModel::StepTimeModel(const spec::StepTimeSpec& linear) : linear_(linear) {}

StepTimeModel::StepTimeModel(std::shared_ptr<const Profile> profile) : profile_(std::move(profile)) {}

Result<StepTimeModel> StepTimeModel::of(const spec::WorkerSpec& worker) {
  if (!worker.profile) return StepTimeModel(worker.step_time);
  KVIST_TRY(const GpuCombination combination, GpuCombination::of(worker));
  return StepTimeModel(std::make_shared<const Profile>(Profile{GpuStepTime(combination)}));
}

Duration StepTimeModel::step_time(const StepLoad& load) const {
  if (profile_) return profile_->times.step_time(load);
  if (load.sequences == 0) return Duration::zero();
  return std::max(linear_step_time(linear_, load), Duration(1));
}

Duration StepTimeModel::intake_delay(const IntakeLoad& load) const {
  return profile_ ? profile_->times.intake_delay(load) : Duration::zero();
}

}  // namespace kvist::perfmodel

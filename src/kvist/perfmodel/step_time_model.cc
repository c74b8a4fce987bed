#include "kvist/perfmodel/step_time_model.h"

#include <algorithm>

#include "kvist/perfmodel/gpu_combination.h"
#include "kvist/perfmodel/gpu_step_time.h"
#include "kvist/perfmodel/step_time.h"

namespace kvist::perfmodel {

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
  return std::max(perfmodel::step_time(linear_, load), Duration(1));
}

Duration StepTimeModel::intake_delay(const IntakeLoad& load) const {
  return profile_ ? profile_->times.intake_delay(load) : Duration::zero();
}

}  // namespace kvist::perfmodel

#include "kvist/perfmodel/gpu_combination.h"

#include <string>

#include "kvist/base/check.h"

namespace kvist::perfmodel {
namespace {}  // namespace

Result<GpuCombination> GpuCombination::of(const spec::WorkerSpec& worker) {
  KVIST_CHECK(worker.profile.has_value(), "a worker without a profile has no GPU");
  const spec::ProfileSpec& profile = *worker.profile;
  GpuCombination c;
  KVIST_TRY(c.gpu, library().gpu(profile.gpu));
  KVIST_TRY(c.model, library().model(profile.model));
  KVIST_TRY(c.engine, Coefficients::of(profile));
  KVIST_TRY(c.fitted_gpu, library().gpu(c.engine.fitted_on().gpu));
  KVIST_TRY(c.fitted_model, library().model(c.engine.fitted_on().model));
  if (worker.speculation.enabled) {
    KVIST_TRY(c.drafter, library().drafter(*c.model, worker.speculation.drafter));
  }
  c.tensor_parallel = profile.tensor_parallel;
  c.kv_dtype = profile.kv_dtype;
  return c;
}

bool GpuCombination::is_on(std::string_view mechanism) const {
  const Coefficient* enabled = engine.find(std::string(mechanism) + ".enabled");
  return enabled != nullptr && enabled->value != 0;
}

double GpuCombination::value(std::string_view name, double off) const {
  const Coefficient* found = engine.find(name);
  return found != nullptr && is_on(name.substr(0, name.find('.'))) ? found->value : off;
}

double GpuCombination::time_ns(std::string_view name) const {
  const Coefficient* found = engine.find(name);
  if (found == nullptr || !is_on(name.substr(0, name.find('.')))) return 0;
  return found->value * kNsPerMs * scale(found->scales_with);
}

double GpuCombination::weight_peak_ns(const ModelFacts& of_model) const {
  return of_model.weight_bytes / tensor_parallel / gpu->bandwidth * kNsPerSecond;
}

double GpuCombination::scale(ScalesWith scaling) const {
  switch (scaling) {
    case ScalesWith::kNothing:
      return 1;
    case ScalesWith::kLayers:
      return model->layers / fitted_model->layers;
    case ScalesWith::kWeights: {
      const double there = fitted_model->weight_bytes / engine.fitted_on().tensor_parallel / fitted_gpu->bandwidth;
      return weight_peak_ns(*model) / (there * kNsPerSecond);
    }
  }
  return 1;
}

}  // namespace kvist::perfmodel

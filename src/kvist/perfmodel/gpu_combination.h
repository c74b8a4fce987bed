// Private to perfmodel: everything a profile names, looked up.
#pragma once

#include "kvist/base/error.h"
#include "kvist/perfmodel/coefficients.h"
#include "kvist/perfmodel/profile_library.h"
#include "kvist/spec/deployment.h"

namespace kvist::perfmodel {

/// A GPU, a model, an engine behaviour and maybe a drafter, working together. The pointers are into library().
struct GpuCombination {
  const GpuFacts* gpu = nullptr;
  const ModelFacts* model = nullptr;
  const ModelFacts* drafter = nullptr;  ///< null without speculation
  const GpuFacts* fitted_gpu = nullptr;
  const ModelFacts* fitted_model = nullptr;
  Coefficients engine;
  double tensor_parallel = 1;
  spec::KvDtype kv_dtype = spec::KvDtype::kFp8;

  /// Requires a profile. Errors: unknown names, a file that does not read.
  [[nodiscard]] static Result<GpuCombination> of(const spec::WorkerSpec& worker);

  /// A coefficient of the engine behaviour; `off` where its mechanism is absent or switched off.
  [[nodiscard]] double value(std::string_view name, double off = 0) const;
  /// A time in nanoseconds, carried over from the combination it was fitted on to this one; 0 where it is off.
  [[nodiscard]] double time_ns(std::string_view name) const;
  [[nodiscard]] bool is_on(std::string_view mechanism) const;
  /// Nanoseconds to read a GPU's share of a model's weights at peak bandwidth.
  [[nodiscard]] double weight_peak_ns(const ModelFacts& of_model) const;

 private:
  [[nodiscard]] double scale(ScalesWith scaling) const;
};

}  // namespace kvist::perfmodel

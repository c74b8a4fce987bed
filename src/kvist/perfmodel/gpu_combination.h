// Private to perfmodel: everything that a profile names.
#pragma once

#include "kvist/base/error.h"
#include "kvist/perfmodel/coefficients.h"
#include "kvist/perfmodel/profile_library.h"
#include "kvist/spec/deployment.h"

namespace kvist::perfmodel {

inline constexpr double kNsPerSecond = 1e9;
inline constexpr double kNsPerMs = 1e6;

/// A GPU, a model, an engine behaviour and possibly a drafter. The pointers refer to library().
struct GpuCombination {
  const GpuFacts* gpu = nullptr;
  const ModelFacts* model = nullptr;
  const ModelFacts* drafter = nullptr;  ///< null without speculation
  const GpuFacts* fitted_gpu = nullptr;
  const ModelFacts* fitted_model = nullptr;
  Coefficients engine;
  double tensor_parallel = 1;
  spec::KvDtype kv_dtype = spec::KvDtype::kFp8;

  /// Requires: a profile. Errors: unknown names, an unreadable file.
  [[nodiscard]] static Result<GpuCombination> of(const spec::WorkerSpec& worker);

  /// A coefficient of the engine behaviour; `off` if its mechanism is absent or switched off.
  [[nodiscard]] double value(std::string_view name, double off = 0) const;
  /// A time in nanoseconds, scaled from the combination on which it was fitted to this one; 0 if it is off.
  [[nodiscard]] double time_ns(std::string_view name) const;
  [[nodiscard]] bool is_on(std::string_view mechanism) const;
  /// The time to read a GPU's share of a model's weights at peak bandwidth, in nanoseconds.
  [[nodiscard]] double weight_peak_ns(const ModelFacts& of_model) const;

 private:
  [[nodiscard]] double scale(ScalesWith scaling) const;
};

}  // namespace kvist::perfmodel

// What the profiles are, for printing.
#pragma once

#include <string>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/perfmodel/coefficients.h"
#include "kvist/spec/deployment.h"

namespace kvist::perfmodel {

/// A profile part that kvist carries.
struct ProfilePart {
  std::string kind;  ///< "gpu", "model", "engine"
  std::string name;
  std::string title;
};

/// All of them, by kind and name.
[[nodiscard]] std::vector<ProfilePart> list_profiles();

/// Why figures of a combination are not backed by a measurement. Empty: it is the one that was measured.
struct Extrapolation {
  std::vector<std::string> reasons;

  [[nodiscard]] bool extrapolated() const { return !reasons.empty(); }
};

/// What a unit of work takes on a combination, computed from its coefficients.
struct DerivedCost {
  std::string name;
  double value = 0;
  std::string unit;
  std::string formula;
};

/// A worker's profile in full.
struct ProfileDescription {
  std::string title;  ///< "Llama 3.1 70B ... on 2 x NVIDIA H100 ..., TensorRT-LLM"
  std::vector<DerivedCost> costs;
  /// Every fact and coefficient with unit and origin; facts are called "gpu.memory", "model.layers", "drafter.layers".
  std::vector<Coefficient> coefficients;
  Extrapolation extrapolation;
};

/// Requires: a profile. Errors: unknown names, with those there are; a file that does not read.
[[nodiscard]] Result<ProfileDescription> describe(const spec::WorkerSpec& worker);
/// The same for a worker without speculation.
[[nodiscard]] Result<ProfileDescription> describe(const spec::ProfileSpec& profile);
/// Only the last part of it; a worker without a profile is not extrapolated.
[[nodiscard]] Result<Extrapolation> extrapolation(const spec::WorkerSpec& worker);

}  // namespace kvist::perfmodel

// Private to perfmodel: the GPUs, models and engine behaviours that kvist carries (data/profiles).
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/perfmodel/coefficients.h"

namespace kvist::perfmodel {

/// A file of data/profiles, put into the binary by the build (cmake/KvistEmbed.cmake).
struct EmbeddedFile {
  std::string_view path;  ///< relative to data/profiles
  std::string_view text;
};
[[nodiscard]] std::span<const EmbeddedFile> embedded_profiles();

/// Something known about a GPU or a model.
struct Fact {
  std::string name;
  double value = 0;
  std::string unit;
  std::string meaning;
  Origin origin;
};

struct GpuFacts {
  std::string name;
  std::string title;
  double memory_bytes = 0;  ///< as CUDA reports it
  double nominal_memory_bytes = 0;
  double bandwidth = 0;       ///< bytes per second
  double fp8_flops = 0;       ///< per second, dense
  double bf16_flops = 0;      ///< per second, dense
  double link_bandwidth = 0;  ///< bytes per second, each way
  std::vector<Fact> facts;    ///< the same values with their origins
};

struct ModelFacts {
  std::string name;
  std::string title;
  double parameters = 0;
  double weight_bytes = 0;
  double nominal_weight_bytes = 0;
  double layers = 0;
  double attention_heads = 0;
  double kv_heads = 0;
  double head_dimension = 0;
  double hidden_size = 0;
  double intermediate_size = 0;
  std::vector<Fact> facts;
  std::map<std::string, std::string> drafters;  ///< kind of drafter -> model profile

  /// Keys and values of one token in all layers, all GPUs together.
  [[nodiscard]] double kv_bytes_per_token(spec::KvDtype dtype) const;
};

/// Immutable after it is made; any thread.
class ProfileLibrary {
 public:
  /// Aborts if an embedded file is broken, which a test excludes by reading all of them.
  explicit ProfileLibrary(std::span<const EmbeddedFile> files);

  /// Errors list the known names.
  [[nodiscard]] Result<const GpuFacts*> gpu(std::string_view name) const;
  [[nodiscard]] Result<const ModelFacts*> model(std::string_view name) const;
  [[nodiscard]] Result<const Coefficients*> engine(std::string_view name) const;
  /// The drafter for a target: one of its kinds ("eagle3"), or a model by name.
  [[nodiscard]] Result<const ModelFacts*> drafter(const ModelFacts& target, std::string_view name) const;
  /// Whether there is such a drafter for any target: for workers without a profile, whose target nobody knows.
  [[nodiscard]] Result<void> check_drafter(std::string_view name) const;

  [[nodiscard]] const std::map<std::string, GpuFacts, std::less<>>& gpus() const { return gpus_; }
  [[nodiscard]] const std::map<std::string, ModelFacts, std::less<>>& models() const { return models_; }
  [[nodiscard]] const std::map<std::string, Coefficients, std::less<>>& engines() const { return engines_; }

 private:
  std::map<std::string, GpuFacts, std::less<>> gpus_;
  std::map<std::string, ModelFacts, std::less<>> models_;
  std::map<std::string, Coefficients, std::less<>> engines_;
};

/// The library that is embedded in the binary, parsed at first use.
[[nodiscard]] const ProfileLibrary& library();

/// The text of a GPU or a model file.
[[nodiscard]] Result<GpuFacts> parse_gpu(std::string_view text, const std::string& name);
[[nodiscard]] Result<ModelFacts> parse_model(std::string_view text, const std::string& name);

}  // namespace kvist::perfmodel

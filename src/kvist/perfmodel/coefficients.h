// The coefficients of an engine behaviour: named values with unit, origin and bounds. Profiles consist of them, and
// `kvist fit` changes them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/spec/deployment.h"

namespace kvist::perfmodel {

/// The origin of a value. It is the first word of the origin's text in a profile file: "fitted: experiment 2, ...".
enum class OriginKind {
  kDatasheet,     ///< the manufacturer's figure
  kDerived,       ///< computed from other facts, which the text names
  kMeasured,      ///< read from a measurement
  kFitted,        ///< fitted to a measurement; the text names the experiment and the levels
  kAssumed,       ///< a plausible value that no measurement supports
  kExtrapolated,  ///< transferred from another GPU, model or engine
};
[[nodiscard]] std::string_view to_string(OriginKind kind);

struct Origin {
  OriginKind kind = OriginKind::kAssumed;
  std::string text;  ///< what follows the kind

  bool operator==(const Origin&) const = default;
};

/// How a time scales from the combination on which it was fitted to another model or tensor parallelism.
enum class ScalesWith {
  kNothing,  ///< the same everywhere: host work per request or sequence
  kLayers,   ///< with the model's layers: kernel launches
  kWeights,  ///< with the time to read one GPU's share of the weights at peak bandwidth: costs of matrix products
};
[[nodiscard]] std::string_view to_string(ScalesWith scaling);

/// One named value. Switches ("graphs.padding") are 0 or 1 and of unit "switch".
struct Coefficient {
  std::string name;  ///< "mechanism.quantity": "host_floor.fixed"
  double value = 0;
  std::string unit;  ///< "ms", "1" (a share or a factor), "rows", "B", "switch"
  std::string meaning;
  Origin origin;
  double low = 0;        ///< a value outside [low, high] is refused as implausible
  double high = 0;       ///< (an efficiency above 1.2, a negative time)
  bool is_free = false;  ///< a fit may change it
  ScalesWith scales_with = ScalesWith::kNothing;

  bool operator==(const Coefficient&) const = default;
};

/// The GPU, model and tensor parallelism on which an engine behaviour was fitted. For others it is an extrapolation.
struct FittedOn {
  std::string gpu;
  std::string model;
  std::uint32_t tensor_parallel = 1;

  bool operator==(const FittedOn&) const = default;
};

/// The engine's settings besides its times, which a worker uses if its file does not set them.
struct EngineBehaviour {
  spec::AdmissionKind admission = spec::AdmissionKind::kReserveToCompletion;
  std::uint32_t max_steps_in_flight = 1;
  bool prefix_deferral = false;
  bool prefix_when_planned = false;
  double memory_fraction = 0.9;  ///< the engine's default
  spec::MemoryMeaning memory_meaning = spec::MemoryMeaning::kOfTotal;

  bool operator==(const EngineBehaviour&) const = default;
};

/// An engine behaviour, the content of a file in data/profiles/engines or of a user's file (docs/formats/profile.md). A
/// value type. Threads: any, while it is not changed.
class Coefficients {
 public:
  /// The coefficients of a worker's profile: those of the engine or of its file, with the values of `ProfileSpec::set`.
  /// Errors: unknown names, with the known ones; values out of bounds.
  [[nodiscard]] static Result<Coefficients> of(const spec::ProfileSpec& profile);
  /// Parses the text of a profile file. `name` is for error messages.
  [[nodiscard]] static Result<Coefficients> parse(std::string_view text, const std::string& name);

  /// In the order of their mechanisms; a mechanism that the file does not name has none.
  [[nodiscard]] const std::vector<Coefficient>& all() const { return all_; }
  /// Null if there is no such coefficient.
  [[nodiscard]] const Coefficient* find(std::string_view name) const;
  [[nodiscard]] Result<double> get(std::string_view name) const;
  /// Errors: an unknown name (with the known ones), a value out of bounds, a value of a switch that is not 0 or 1.
  [[nodiscard]] Result<void> set(std::string_view name, double value, Origin origin);
  /// Whether a fit may change it.
  [[nodiscard]] Result<void> set_free(std::string_view name, bool is_free);
  [[nodiscard]] std::vector<std::string> free_names() const;

  /// The text of a profile file, which parse() reads as the same values.
  [[nodiscard]] std::string to_yaml() const;

  [[nodiscard]] const std::string& name() const { return name_; }
  void set_name(std::string name) { name_ = std::move(name); }
  [[nodiscard]] const std::string& title() const { return title_; }
  void set_title(std::string title) { title_ = std::move(title); }
  [[nodiscard]] const FittedOn& fitted_on() const { return fitted_on_; }
  void set_fitted_on(FittedOn where) { fitted_on_ = std::move(where); }
  [[nodiscard]] const EngineBehaviour& behaviour() const { return behaviour_; }
  /// Batch sizes with a captured graph, ascending; empty without the mechanism "graphs".
  [[nodiscard]] const std::vector<std::uint32_t>& graph_sizes() const { return graph_sizes_; }

  bool operator==(const Coefficients&) const = default;

 private:
  friend class EngineReader;
  std::string name_;
  std::string title_;
  FittedOn fitted_on_;
  EngineBehaviour behaviour_;
  std::vector<Coefficient> all_;
  std::vector<std::uint32_t> graph_sizes_;
};

}  // namespace kvist::perfmodel

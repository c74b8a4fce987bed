// A recorded run as a line of reference: figures by routing mode and concurrency.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kvist/analysis/reference_data.h"
#include "kvist/analysis/run_analysis.h"
#include "kvist/base/error.h"
#include "kvist/base/json_writer.h"
#include "kvist/dashboard/figures.h"
#include "kvist/spec/arm.h"

namespace kvist::dashboard {

/// What it was made from.
enum class BaselineKind : std::uint8_t { kResults, kReport, kReference };

struct BaselineLevel {
  std::uint32_t concurrency = 0;
  LiveFigures figures;  ///< nothing where the source does not have one
};
struct BaselineMode {
  spec::Arm mode = spec::RoutingMode::kRoundRobin;
  std::vector<BaselineLevel> levels;  ///< ascending
};

/// The figures at one load.
struct BaselinePoint {
  LiveFigures figures;
  std::uint32_t below = 0;  ///< the levels between which they lie; equal: it was measured
  std::uint32_t above = 0;
  [[nodiscard]] bool interpolated() const { return below != above; }
};

struct Baseline {
  std::string title;
  std::string source;  ///< the file's name
  BaselineKind kind = BaselineKind::kReference;
  std::optional<double> time_scale = {};  ///< of what was measured; nothing: unknown
  double time_factor = 1;                 ///< by which times were multiplied and rates divided
  std::vector<BaselineMode> modes = {};

  /// The mode without routing by cache, if there is one: the line that routing has to beat.
  [[nodiscard]] spec::Arm default_mode() const;
  /// Between two levels every figure that both have is on the straight line. Returns nothing outside of the levels,
  /// where nothing was measured. Requires: the mode is one of `modes`.
  [[nodiscard]] static std::optional<BaselinePoint> at(const BaselineMode& mode, std::uint32_t concurrency);
  /// Converts the figures to what they would be if the workers ran at that scale: times are divided by the ratio, rates
  /// multiplied.
  void convert_to(double scale);
};

/// The figures of a measured level, as far as the dashboard has them.
[[nodiscard]] LiveFigures figures_of(const analysis::MeasuredLevel& level);
/// The same of a single measurement, without what intervals would take.
[[nodiscard]] LiveFigures figures_of(const analysis::LevelAnalysis& level);

/// `name` is the file's.
[[nodiscard]] Baseline baseline_of(const analysis::Reference& reference, const std::string& name);
[[nodiscard]] Baseline baseline_of(const analysis::RunAnalysis& run, const std::string& name);

/// A results database or its folder, a report.json, or a file in the format of data/reference. `time_scale`: that of
/// the workers with which it is compared, if they all have one.
[[nodiscard]] Result<Baseline> load_baseline(const std::string& path, std::optional<double> time_scale);

/// The message "baseline".
[[nodiscard]] std::string baseline_json(const Baseline* baseline);
/// The value of "baseline" in a sample: per mode, what it is at this concurrency.
void write_baseline_at(JsonWriter& json, const Baseline& baseline, std::uint32_t concurrency);

}  // namespace kvist::dashboard

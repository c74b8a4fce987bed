#include "kvist/cli/dashboard_setup.h"

#include <fmt/format.h>

#include "kvist/dashboard/figures.h"
#include "kvist/planning/slo.h"

namespace kvist::cli {

Result<std::vector<dashboard::SloLine>> slo_lines(const std::string& text) {
  std::vector<dashboard::SloLine> lines;
  if (text.empty()) return lines;
  KVIST_TRY(const planning::Slo slo, planning::parse_slo(text));
  for (const planning::Objective& objective : slo) {
    const auto live = dashboard::live_of(objective.figure);
    if (!live) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("--slo: {} is a figure of whole levels, which the dashboard does not show live",
                              spec::key_of(objective.figure)));
    }
    lines.push_back({.figure = dashboard::index_of(*live), .limit = objective.limit, .is_least = objective.is_least()});
  }
  return lines;
}

std::optional<double> time_scale_of(const std::vector<spec::WorkerSpec>& workers) {
  std::optional<double> scale;
  for (const spec::WorkerSpec& worker : workers) {
    if (scale && *scale != worker.time_scale) return std::nullopt;
    scale = worker.time_scale;
  }
  return scale;
}

Result<void> read_dashboard(const DashboardArguments& arguments, dashboard::DashboardOptions& options) {
  KVIST_TRY(options.facts.slo, slo_lines(arguments.slo));
  KVIST_TRY(options.tls, load_listener(arguments.listen));
  if (arguments.baseline.empty()) return {};
  auto baseline = dashboard::load_baseline(arguments.baseline, options.facts.time_scale);
  if (!baseline) return std::unexpected(std::move(baseline).error().in("--baseline"));
  options.baseline = *std::move(baseline);
  return {};
}

}  // namespace kvist::cli

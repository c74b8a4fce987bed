#include "kvist/cli/dashboard_setup.h"

#include <fmt/format.h>

#include "kvist/analysis/named_figures.h"
#include "kvist/planning/slo.h"

namespace kvist::cli {

Result<std::vector<dashboard::SloLine>> slo_lines(const std::string& text) {
  std::vector<dashboard::SloLine> lines;
  if (text.empty()) return lines;
  auto slo = planning::parse_slo(text);
  if (!slo) return std::unexpected(std::move(slo).error().in("--slo"));
  for (const planning::Objective& objective : *slo) {
    const std::string_view key = analysis::figure_of(objective.metric).key;
    if (const auto figure = dashboard::find_live(key)) lines.push_back({.figure = *figure, .limit = objective.limit});
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

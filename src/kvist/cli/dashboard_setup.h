// The dashboard of a command: its options as the user gives them, and as the service takes them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/cli/dashboard_arguments.h"
#include "kvist/dashboard/service/dashboard.h"
#include "kvist/spec/deployment.h"

namespace kvist::cli {

/// "ttft_p95=600ms,..." as limits of the dashboard's figures.
[[nodiscard]] Result<std::vector<dashboard::SloLine>> slo_lines(const std::string& text);
/// The scale that all workers have; nothing if they differ, or there are none.
[[nodiscard]] std::optional<double> time_scale_of(const std::vector<spec::WorkerSpec>& workers);
/// Reads baseline, limits and the listener's certificate into the options, whose facts have the time scale.
[[nodiscard]] Result<void> read_dashboard(const DashboardArguments& arguments, dashboard::DashboardOptions& options);

}  // namespace kvist::cli

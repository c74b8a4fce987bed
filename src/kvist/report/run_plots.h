// Which plots a report shows.
#pragma once

#include <vector>

#include "kvist/report/run_analysis.h"
#include "kvist/report/svg_plot.h"

namespace kvist::report {

/// TTFT, TPOT, latency, throughput, hit rate and prefilled tokens over the concurrency levels, a line per mode.
[[nodiscard]] std::vector<Plot> plots_over_levels(const RunAnalysis& analysis);
/// The distribution of TTFT over all samples, one plot per level, a line per mode.
[[nodiscard]] std::vector<Plot> ttft_distributions(const RunAnalysis& analysis);

}  // namespace kvist::report

// Which plots a report shows.
#pragma once

#include <vector>

#include "kvist/analysis/run_analysis.h"
#include "kvist/render/svg_plot.h"

namespace kvist::report {

/// TTFT, TPOT, latency, throughput, hit rate and prefilled tokens over the concurrency levels, a line per mode.
[[nodiscard]] std::vector<render::Plot> plots_over_levels(const analysis::RunAnalysis& analysis);
/// The distribution of TTFT over all samples, one plot per level, a line per mode.
/// TTFT over the turn of the conversation and over the prompt's length, of each level a pair.
[[nodiscard]] std::vector<render::Plot> ttft_by_groups(const analysis::RunAnalysis& analysis);
[[nodiscard]] std::vector<render::Plot> ttft_distributions(const analysis::RunAnalysis& analysis);

}  // namespace kvist::report

// Which plots a report shows.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "kvist/analysis/headline.h"
#include "kvist/analysis/run_analysis.h"
#include "kvist/render/svg_plot.h"

namespace kvist::report {

/// TTFT, TPOT, latency, throughput, hit rate and prefilled tokens over the concurrency levels, a line per mode.
[[nodiscard]] std::vector<render::Plot> plots_over_levels(const analysis::RunAnalysis& analysis);
/// TTFT over the turn of the conversation and over the prompt's length, of each level a pair.
[[nodiscard]] std::vector<render::Plot> ttft_by_groups(const analysis::RunAnalysis& analysis);
/// The distribution of TTFT over all samples, one plot per level, a line per mode.
[[nodiscard]] std::vector<render::Plot> ttft_distributions(const analysis::RunAnalysis& analysis);
/// A figure of one arm over the levels, with its interval as band, in the unit in which it is printed.
[[nodiscard]] render::PlotSeries figure_series(const analysis::RunAnalysis& analysis, const spec::Arm& arm,
                                               const analysis::HeadlineFigure& figure, std::string name,
                                               std::size_t colour);

}  // namespace kvist::report

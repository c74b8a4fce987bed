// Runs beside each other: later ones against the first, level by level.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "kvist/analysis/run_changes.h"
#include "kvist/render/document.h"
#include "kvist/render/svg_plot.h"

namespace kvist::report {

/// "Phase 3 vs Phase 0": what is set otherwise, TPOT, TTFT, latency, throughput and errors of both with their change
/// and its interval, where each saturates, and on how many levels it became better or worse. In the published layout,
/// with exact figures.
[[nodiscard]] render::Document phase_section(const analysis::RunPair& pair);

/// The report of the last run with a section for each pair, in the layout of the published documents. Requires: at
/// least one pair; as below.
[[nodiscard]] std::string run_comparison_markdown(std::span<const analysis::RunPair> pairs);
/// One self-contained page: the verdict, the runs' curves in one plot each with their bands, the changes with theirs,
/// and the tables.
[[nodiscard]] std::string run_comparison_page(std::span<const analysis::RunPair> pairs);
/// For a terminal.
[[nodiscard]] std::string run_comparison_text(std::span<const analysis::RunPair> pairs);
/// `changes`: docs/formats/report-json.md.
[[nodiscard]] std::string run_comparison_json(std::span<const analysis::RunPair> pairs);

/// Private to the page: the curves of all runs, and how each figure changed.
[[nodiscard]] std::vector<render::Plot> overlaid_plots(std::span<const analysis::RunPair> pairs);
[[nodiscard]] std::vector<render::Plot> change_plots(std::span<const analysis::RunPair> pairs);
/// Per figure on how many levels it became better or worse.
[[nodiscard]] render::Bullets phase_verdict(const analysis::RunPair& pair);
/// How changes and their intervals are computed, in words.
[[nodiscard]] std::string change_method();

}  // namespace kvist::report

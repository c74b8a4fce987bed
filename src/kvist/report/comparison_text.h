// Comparisons of modes as tables and JSON, and their combined verdicts over runs.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "kvist/analysis/comparison.h"
#include "kvist/base/json_writer.h"
#include "kvist/render/document.h"
#include "kvist/render/table.h"

namespace kvist::report {

[[nodiscard]] std::string_view to_string(analysis::PairedVerdict verdict);

/// "0.842 (0.801 to 0.885) better"; differences in points: "+1.2 (+0.8 to +1.6) better". "-" where there is no pair.
[[nodiscard]] std::string change_cell(const analysis::ComparedFigure& figure,
                                      const analysis::FigureComparison& comparison);

/// One mode against the baseline: a row per level, a column per figure.
[[nodiscard]] render::Table comparison_table(const analysis::RunComparison& comparison, const spec::Arm& mode);

/// The combined verdict of all levels of all runs on a figure of a mode: worse if one level is worse, else better if
/// one is better, else equal; open if no level could be compared.
[[nodiscard]] analysis::PairedVerdict combined_verdict(std::span<const analysis::RunComparison> runs,
                                                       const spec::Arm& mode, std::size_t figure);
/// A row per mode, a column per figure: "better: 7 better, 2 equal, 0 worse".
[[nodiscard]] render::Table combined_table(std::span<const analysis::RunComparison> runs);

/// How the figures below were made, in words: pairs, statistic, what a verdict means.
[[nodiscard]] std::string comparison_method();

/// Writes the "comparison" object of one run at the writer's position.
void write_comparison(JsonWriter& json, const analysis::RunComparison& comparison);
/// Several runs and their combined verdicts as a document.
[[nodiscard]] std::string comparisons_json(std::span<const analysis::RunComparison> runs);
/// For a terminal.
[[nodiscard]] std::string comparisons_text(std::span<const analysis::RunComparison> runs);

/// The section of a sweep's report; nothing if there is nothing to compare.
void add_comparison(render::Document& document, const analysis::RunAnalysis& analysis);

}  // namespace kvist::report

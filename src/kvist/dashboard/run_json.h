// Stored runs as JSON of the dashboard (docs/formats/dashboard.md).
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/analysis/run_analysis.h"
#include "kvist/base/json_writer.h"
#include "kvist/results/records.h"
#include "kvist/results/store.h"

namespace kvist::dashboard {

/// The plot of report::plots_over_levels() that has the figure of that key; nothing: it is in none.
[[nodiscard]] std::optional<std::size_t> plot_of(std::string_view figure);

/// The fields of a run in a list, in an object that is begun.
void write_run_head(JsonWriter& json, const std::string& id, const std::string& file, const results::RunRecord& head,
                    const std::vector<results::LevelHead>& levels);
/// "figures", "modes", "files".
void write_curves(JsonWriter& json, const analysis::RunAnalysis& analysis,
                  const std::vector<results::LevelHead>& levels);
/// The answer to "compare": the changes that `kvist report compare --runs` prints. Errors: runs that it refuses to
/// compare (analysis::pair_runs).
[[nodiscard]] Result<std::string> comparison_json(std::string_view baseline_id, const analysis::RunAnalysis& baseline,
                                                  std::string_view candidate_id,
                                                  const analysis::RunAnalysis& candidate);

}  // namespace kvist::dashboard

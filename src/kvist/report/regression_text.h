// A comparison of two runs for a terminal.
#pragma once

#include <string>
#include <vector>

#include "kvist/analysis/regression.h"

namespace kvist::report {

/// A row per level and figure, and a line with the verdict.
[[nodiscard]] std::string regression_text(const std::vector<analysis::FigureRegression>& results,
                                          const analysis::RegressionTolerance& tolerance);

}  // namespace kvist::report

// A run as one self-contained page: its document, plots, and timelines.
#pragma once

#include <string>

#include "kvist/analysis/run_analysis.h"

namespace kvist::report {

[[nodiscard]] std::string sweep_page(const analysis::RunAnalysis& analysis);

}  // namespace kvist::report

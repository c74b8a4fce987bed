// The one self-contained page: style sheet, plots, and the document's blocks.
#pragma once

#include <string>

#include "kvist/report/run_analysis.h"

namespace kvist::report {

[[nodiscard]] std::string html_page(const RunAnalysis& analysis);

}  // namespace kvist::report

// The one self-contained page: style sheet, plots, and the document's blocks.
#pragma once

#include <string>
#include <vector>

#include "kvist/report/document.h"
#include "kvist/report/run_analysis.h"
#include "kvist/report/svg_plot.h"

namespace kvist::report {

[[nodiscard]] std::string html_page(const RunAnalysis& analysis);
/// The same page around any document; the plots stand where it has PlotsHere. What planning writes.
[[nodiscard]] std::string html_page(const std::string& title, const Document& document, const std::vector<Plot>& plots);

}  // namespace kvist::report

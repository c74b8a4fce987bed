// A whole report as a document.
#pragma once

#include <string>

#include "kvist/analysis/run_analysis.h"
#include "kvist/render/document.h"

namespace kvist::report {

/// The first heading: "Benchmark Sweep: KV Cache Routing vs Round-Robin".
[[nodiscard]] std::string title_of(const analysis::RunAnalysis& analysis);
/// Two modes: the layout of the published two-mode document. Otherwise: the single-mode one, per mode. kvist's own
/// sections follow.
[[nodiscard]] render::Document build_document(const analysis::RunAnalysis& analysis);

}  // namespace kvist::report

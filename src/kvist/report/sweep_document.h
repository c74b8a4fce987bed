// A whole report as a document.
#pragma once

#include <string>

#include "kvist/report/document.h"
#include "kvist/report/run_analysis.h"

namespace kvist::report {

/// The first heading: "Benchmark Sweep: KV Cache Routing vs Round-Robin".
[[nodiscard]] std::string title_of(const RunAnalysis& analysis);
/// Two modes: the layout of the published two-mode document. Otherwise: the single-mode one, per mode. kvist's own
/// sections follow.
[[nodiscard]] Document build_document(const RunAnalysis& analysis);

}  // namespace kvist::report

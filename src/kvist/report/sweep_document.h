// A whole report as a document.
#pragma once

#include <string>

#include "kvist/analysis/run_analysis.h"
#include "kvist/render/document.h"

namespace kvist::report {

/// The first heading: "Benchmark Sweep: KV Cache Routing vs Round-Robin".
[[nodiscard]] std::string title_of(const analysis::RunAnalysis& analysis);
/// Exact figures first (two modes side by side, otherwise mode by mode), then the published method in the layout of the
/// published documents, then everything else. `inserted` stands where the published documents have their analysis,
/// before the reference data.
[[nodiscard]] render::Document build_document(const analysis::RunAnalysis& analysis,
                                              const render::Document& inserted = {});

}  // namespace kvist::report

// The test of open arrivals in words.
#pragma once

#include <string>
#include <string_view>

#include "kvist/analysis/arrival_law.h"

namespace kvist::report {

/// "constant", "poisson", "gamma", "bursts".
[[nodiscard]] std::string_view law_name(spec::ArrivalKind kind);
/// One line: rates ordered, due and sent, variation of the gaps, dispersion of the counts, the test, the verdict.
[[nodiscard]] std::string arrival_text(const analysis::ArrivalTest& test);

}  // namespace kvist::report

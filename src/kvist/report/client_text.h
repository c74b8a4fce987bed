// What the load generator measured of itself, in words.
#pragma once

#include <string>

#include "kvist/analysis/client_verdict.h"
#include "kvist/results/records.h"

namespace kvist::report {

/// "valid", "degraded: loop delay ...; CPU share ...".
[[nodiscard]] std::string verdict_text(const analysis::ClientVerdict& verdict);

/// "0.1, 0.2, 0.4ms": the worst the client may have added to, or taken from, the p50, p95 and p99 that begin with
/// `p50`; "-" where there is no sample or no certificate.
[[nodiscard]] std::string shares_text(const results::ClientHealth& client, results::BoundedFigure p50);

/// One line for a console: the verdict, its bounds and what they come from.
[[nodiscard]] std::string client_text(const results::ClientHealth& client, const analysis::ClientVerdict& verdict);

}  // namespace kvist::report

// How much of a level's figures may be the load generator's own doing, from what each sample says of itself.
#pragma once

#include <optional>

#include "kvist/analysis/pause_shift.h"
#include "kvist/results/client_certificate.h"
#include "kvist/results/records.h"

namespace kvist::analysis {

/// Bounds of the client's share in the percentiles of TTFT and ITL, over the turns that are in them. Each sample bounds
/// its own true value, and order statistics of the bounds bound those of the true values. If chunks were read together,
/// only the last one's arrival is known; but the gaps between them cannot exceed the time that they had together, so
/// the i-th longest of them is at most an i-th of it. Returns nothing if one of the turns does not have the arrival of
/// its chunks. While a processor was paused nothing was stamped: `pauses` widens the bounds by how far such pauses,
/// which come at instants that do not depend on the samples, have moved the percentiles (pause_shifts). It does not
/// cover the client's process. Time is linear in the samples, except for chunks that were read together.
[[nodiscard]] std::optional<results::ClientCertificate> certify(const results::LevelRecord& level,
                                                                const PauseLaw& pauses = {});

/// Adds what another repetition of the level says: counts are sums, everything else is the worst.
void add_certificate(std::optional<results::ClientCertificate>& merged,
                     const std::optional<results::ClientCertificate>& other);

}  // namespace kvist::analysis

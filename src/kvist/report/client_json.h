// The load generator's own health in result files.
#pragma once

#include "kvist/analysis/client_verdict.h"
#include "kvist/base/json_writer.h"
#include "kvist/results/records.h"

namespace kvist::report {

/// Writes the key `client` and its object (docs/formats/loadgen-output.md).
void write_client(JsonWriter& json, const results::ClientHealth& client, const analysis::ClientVerdict& verdict);

}  // namespace kvist::report

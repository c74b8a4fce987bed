// The agents of a load that several machines drove, for the console and summary.json.
#pragma once

#include <string>

#include "kvist/base/json_writer.h"
#include "kvist/report/load_run.h"

namespace kvist::report {

/// A line for each agent: its part, its clock, its own verdict. Empty: this machine drove the load.
[[nodiscard]] std::string agents_text(const LoadRun& run, const LoadFigures& figures);

/// Writes the key `agents` and its list (docs/formats/loadgen-output.md), if there are any.
void write_agents(JsonWriter& json, const LoadRun& run, const LoadFigures& figures);

}  // namespace kvist::report

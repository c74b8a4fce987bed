// The agents of a load that several machines drove, for the console, files and reports.
#pragma once

#include <string>
#include <vector>

#include "kvist/analysis/client_verdict.h"
#include "kvist/analysis/level_analysis.h"
#include "kvist/base/json_writer.h"
#include "kvist/results/records.h"

namespace kvist::report {

using LoadAgents = std::vector<results::LoadAgent>;

/// On an agent's own certificate, by the figures of the whole load.
[[nodiscard]] analysis::ClientVerdict verdict_on(const results::LoadAgent& agent, const analysis::ExactFigures& exact);

/// "clock 0.021 ms ahead to 0.018 ms, +0.002 ms over the load".
[[nodiscard]] std::string clock_text(const results::LoadAgent& agent);

/// A line for each agent: its part, its clock, its own verdict. Empty: this machine drove the load.
[[nodiscard]] std::string agents_text(const LoadAgents& agents, const analysis::ExactFigures& exact);

/// Writes the key `agents` and its list (docs/formats/loadgen-output.md), if there are any.
void write_agents(JsonWriter& json, const LoadAgents& agents, const analysis::ExactFigures& exact);

}  // namespace kvist::report

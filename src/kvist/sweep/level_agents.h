// What agents add to the record of a load that they drove.
#pragma once

#include <span>

#include "kvist/loadgen/agents/agent_dialogue.h"
#include "kvist/results/records.h"

namespace kvist::sweep {

/// Adds each agent with its clock and its own certificate, and remarks on those that were lost or whose clocks parted;
/// the certificate of the whole becomes the worst of all. Requires: `level` has the samples of all agents, its window
/// and its certificate.
void add_agents(std::span<const loadgen::AgentDialogue> agents, results::LevelRecord& level);

}  // namespace kvist::sweep

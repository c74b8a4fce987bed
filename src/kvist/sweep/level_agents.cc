#include "kvist/sweep/level_agents.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kvist/analysis/client_certificate.h"
#include "kvist/sweep/level_summary.h"

namespace kvist::sweep {
namespace {

using loadgen::AgentDialogue;
using loadgen::AgentPhase;

/// The part of a level that one agent drove, with what it says of itself.
results::ClientHealth health_of(const AgentDialogue& agent, const results::LevelRecord& level) {
  results::LevelRecord part;
  part.concurrency = level.concurrency;
  part.seed = level.seed;
  part.started = level.started;
  part.measure_from = level.measure_from;
  part.measure_to = level.measure_to;
  std::ranges::copy_if(level.turns, std::back_inserter(part.turns),
                       [&](const workload::TurnSample& turn) { return agent.has_part_of(turn.conversation.value()); });
  return summarise_client(agent.report().client, agent.report().driven, part);
}

results::LoadAgent agent_of(const AgentDialogue& agent, const results::LevelRecord& level) {
  results::LoadAgent record{.name = agent.name(),
                            .threads = agent.report().threads,
                            .turns = agent.samples_received(),
                            .clock_ahead = {},
                            .clock_bound = {},
                            .clock_drift = {},
                            .lost = {},
                            .client = health_of(agent, level)};
  if (agent.clock()) {
    record.clock_ahead = agent.clock()->before().ahead;
    record.clock_bound = agent.clock()->bound();
    record.clock_drift = agent.clock()->drift();
  }
  if (agent.phase() == AgentPhase::kLost) record.lost = agent.error()->message;
  return record;
}

std::vector<std::string> remarks_on(const AgentDialogue& agent, const results::LevelRecord& level) {
  std::vector<std::string> remarks;
  if (agent.phase() == AgentPhase::kLost) {
    remarks.push_back(
        fmt::format("agent {} was lost {:.1f} s after the start ({}): of its {} of {} parts only {} turns are in the "
                    "figures, and rates are too low",
                    agent.name(), to_seconds(agent.lost_at() - level.started), agent.error()->message,
                    agent.report().threads, agent.shard().count, agent.samples_received()));
  }
  for (const std::string& remark : agent.remarks()) remarks.push_back(fmt::format("agent {} {}", agent.name(), remark));
  if (agent.report().latest_change > Duration(0)) {
    remarks.push_back(fmt::format("agent {} heard of a change {:.1f} ms too late and made it then", agent.name(),
                                  to_milliseconds(agent.report().latest_change)));
  }
  if (!agent.clock() || agent.phase() == AgentPhase::kLost) return remarks;
  if (!agent.clock()->after()) {
    remarks.push_back(fmt::format("the clock of agent {} could not be compared after the load", agent.name()));
  } else if (agent.clock()->jumped()) {
    remarks.push_back(
        fmt::format("the clock of agent {} went {:.3f} ms from this one's during the load: instants of its turns are "
                    "not sure (its latencies are)",
                    agent.name(), to_milliseconds(*agent.clock()->drift())));
  }
  return remarks;
}

}  // namespace

void add_agents(std::span<const AgentDialogue> agents, results::LevelRecord& level) {
  results::ClientHealth& whole = level.client;
  std::optional<results::ClientCertificate> together = std::exchange(whole.certificate, std::nullopt);
  bool all_certified = together.has_value();
  for (const AgentDialogue& agent : agents) {
    level.agents.push_back(agent_of(agent, level));
    const results::ClientHealth& health = level.agents.back().client;
    whole.cpu_share = std::max(whole.cpu_share, health.cpu_share);
    all_certified = all_certified && health.certificate.has_value();
    analysis::add_certificate(whole.certificate, health.certificate);
    for (std::string& remark : remarks_on(agent, level)) level.remarks.push_back(std::move(remark));
  }
  if (!all_certified) return whole.certificate.reset();
  // Its counts are those of the agents already.
  together->chunks = together->stamped_chunks = together->loop_stalls = 0;
  together->loop_stalled_ms = 0;
  together->pauses.reset();
  analysis::add_certificate(whole.certificate, together);
}

}  // namespace kvist::sweep

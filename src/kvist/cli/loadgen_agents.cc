#include "kvist/cli/loadgen_agents.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "kvist/analysis/client_certificate.h"
#include "kvist/cli/load_arguments_json.h"
#include "kvist/cli/loadgen_service.h"
#include "kvist/loadgen/agents/agent.h"
#include "kvist/net/bearer_key.h"
#include "kvist/net/sha256.h"
#include "kvist/sweep/level_summary.h"
#include "kvist/workload/load_input.h"

namespace kvist::cli {
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
  return sweep::summarise_client(agent.report().client, agent.report().driven, part);
}

report::LoadAgent agent_of(const AgentDialogue& agent, const results::LevelRecord& level) {
  report::LoadAgent record{.name = agent.name(),
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

Result<std::unique_ptr<loadgen::RemoteLoad>> make_remote_load(net::EventLoop& loop, const LoadgenArguments& arguments,
                                                              const LoadOrder& order) {
  loadgen::RemoteLoadOptions options;
  Result<std::vector<std::string>> agents = loadgen::parse_agents(arguments.agents);
  if (!agents) return std::unexpected(std::move(agents).error().in("--agents"));
  options.agents = *std::move(agents);
  if (!arguments.agents_key_file.empty()) {
    KVIST_TRY(options.server.bearer_key, net::read_bearer_key(arguments.agents_key_file));
  }
  const bool tls = std::ranges::any_of(options.agents, [](const auto& url) { return url.starts_with("https://"); });
  if (!arguments.agents_ca.empty() && !tls) {
    return fail(ErrorCode::kInvalidArgument, "--agents-ca: is for agents with https://");
  }
  if (tls) {
    KVIST_TRY(options.server.tls, load_tls({.ca = arguments.agents_ca}, "https://"));
  }
  KVIST_TRY(ToldLoad told, told_load(arguments));
  const auto seed = order.workload.seed;
  KVIST_TRY(const auto texts, workload::prepare_texts(order.workload, order.input, seed));
  loadgen::AgentOrder own;
  own.options.workload = order.workload;
  own.options.input = order.input;
  own.level = *order.level;
  own.seed = seed;
  options.load = {.name = net::random_text(18),
                  .order = std::move(told.order),
                  .files = std::move(told.files),
                  .schedule = loadgen::schedule_digest(own, texts)};
  options.workload = order.workload;
  options.level = own.level;
  options.seed = seed;
  options.duration = order.duration;
  if (arguments.port) options.http = spec::Endpoint{arguments.host, *arguments.port};
  KVIST_TRY(options.tls, load_listener(arguments.dashboard.listen));
  return loadgen::RemoteLoad::create(loop, std::move(options));
}

void add_agents(const loadgen::Coordination& coordination, report::LoadRun& record) {
  results::ClientHealth& whole = record.level.client;
  std::optional<results::ClientCertificate> together = std::exchange(whole.certificate, std::nullopt);
  bool all_certified = together.has_value();
  for (const AgentDialogue& agent : coordination.agents()) {
    record.agents.push_back(agent_of(agent, record.level));
    const results::ClientHealth& health = record.agents.back().client;
    whole.cpu_share = std::max(whole.cpu_share, health.cpu_share);
    all_certified = all_certified && health.certificate.has_value();
    analysis::add_certificate(whole.certificate, health.certificate);
    for (std::string& remark : remarks_on(agent, record.level)) record.level.remarks.push_back(std::move(remark));
  }
  if (!all_certified) return whole.certificate.reset();
  // Its counts are those of the agents already.
  together->chunks = together->stamped_chunks = together->loop_stalls = 0;
  together->loop_stalled_ms = 0;
  together->pauses.reset();
  analysis::add_certificate(whole.certificate, together);
}

Result<void> check_agents(const loadgen::Coordination& coordination) {
  std::vector<std::string> lost;
  for (const AgentDialogue& agent : coordination.agents()) {
    if (agent.phase() == AgentPhase::kLost) lost.push_back(agent.name());
  }
  if (lost.empty()) return {};
  return fail(ErrorCode::kUnavailable, fmt::format("lost of the {} agents: {}; the figures are of the others",
                                                   coordination.agents().size(), fmt::join(lost, ", ")));
}

}  // namespace kvist::cli

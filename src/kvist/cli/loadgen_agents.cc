#include "kvist/cli/loadgen_agents.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "kvist/cli/load_arguments_json.h"
#include "kvist/cli/loadgen_service.h"
#include "kvist/loadgen/agents/agent.h"
#include "kvist/net/sha256.h"
#include "kvist/workload/load_input.h"

namespace kvist::cli {
Result<std::unique_ptr<loadgen::RemoteLoad>> make_remote_load(net::EventLoop& loop, const LoadgenArguments& arguments,
                                                              const LoadOrder& order) {
  loadgen::RemoteLoadOptions options;
  Result<std::vector<std::string>> agents = loadgen::parse_agents(arguments.agents);
  if (!agents) return std::unexpected(std::move(agents).error().in("--agents"));
  options.agents = *std::move(agents);
  const bool tls = std::ranges::any_of(options.agents, [](const auto& url) { return url.starts_with("https://"); });
  if (!arguments.agents_ca.empty() && !tls) {
    return fail(ErrorCode::kInvalidArgument, "--agents-ca: is for agents with https://");
  }
  KVIST_TRY(options.server, loadgen::agent_settings(options.agents, arguments.agents_key_file, arguments.agents_ca));
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
                  .schedule = loadgen::schedule_digest(own, texts),
                  .watched = has_dashboard(arguments)};
  options.workload = order.workload;
  options.level = own.level;
  options.seed = seed;
  options.duration = order.duration;
  if (arguments.port && !has_dashboard(arguments)) {  // which has the listener, if there is one
    options.http = spec::Endpoint{arguments.host, *arguments.port};
    KVIST_TRY(options.tls, load_listener(arguments.dashboard.listen));
  }
  return loadgen::RemoteLoad::create(loop, std::move(options));
}

Result<void> check_agents(const loadgen::Coordination& coordination) {
  std::vector<std::string> lost;
  for (const loadgen::AgentDialogue& agent : coordination.agents()) {
    if (agent.phase() == loadgen::AgentPhase::kLost) lost.push_back(agent.name());
  }
  if (lost.empty()) return {};
  return fail(ErrorCode::kUnavailable, fmt::format("lost of the {} agents: {}; the figures are of the others",
                                                   coordination.agents().size(), fmt::join(lost, ", ")));
}

}  // namespace kvist::cli

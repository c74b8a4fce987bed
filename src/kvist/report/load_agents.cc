#include "kvist/report/load_agents.h"

#include <fmt/format.h>

#include <chrono>

#include "kvist/render/figures.h"
#include "kvist/report/client_json.h"
#include "kvist/report/client_text.h"

namespace kvist::report {
analysis::ClientVerdict verdict_on(const results::LoadAgent& agent, const analysis::ExactFigures& exact) {
  return analysis::client_verdict(agent.client, exact.ttft_ms, exact.itl_ms);
}

std::string clock_text(const results::LoadAgent& agent) {
  if (!agent.clock_ahead) return "clock not compared";
  const char* const way = *agent.clock_ahead < Duration(0) ? "behind" : "ahead";
  const std::string drift =
      agent.clock_drift ? fmt::format(", {:+.3f} ms over the load", to_milliseconds(*agent.clock_drift)) : "";
  return fmt::format("clock {:.3f} ms {} to {:.3f} ms{}", to_milliseconds(std::chrono::abs(*agent.clock_ahead)), way,
                     to_milliseconds(agent.clock_bound), drift);
}

std::string agents_text(const LoadAgents& agents, const analysis::ExactFigures& exact) {
  std::string text;
  for (const results::LoadAgent& agent : agents) {
    text += fmt::format("agent    {}: {} {}, {} turns, {}; {}{}\n", agent.name, agent.threads,
                        agent.threads == 1 ? "thread" : "threads", render::format_count(agent.turns), clock_text(agent),
                        agent.lost ? "LOST: " + *agent.lost + "; " : "",
                        client_text(agent.client, verdict_on(agent, exact)));
  }
  return text;
}

void write_agents(JsonWriter& json, const LoadAgents& agents, const analysis::ExactFigures& exact) {
  if (agents.empty()) return;
  const auto ms = [](const std::optional<Duration>& span) {
    return span ? std::optional(to_milliseconds(*span)) : std::nullopt;
  };
  json.key("agents").begin_array();
  for (const results::LoadAgent& agent : agents) {
    json.begin_object().field("agent", agent.name).field("threads", agent.threads).field("turns", agent.turns);
    json.rounded_field("clock_ahead_ms", ms(agent.clock_ahead));
    json.rounded_field("clock_bound_ms", ms(agent.clock_bound));
    json.rounded_field("clock_drift_ms", ms(agent.clock_drift));
    json.key("lost");
    if (agent.lost) {
      json.value(*agent.lost);
    } else {
      json.null();
    }
    write_client(json, agent.client, verdict_on(agent, exact));
    json.end_object();
  }
  json.end_array();
}

}  // namespace kvist::report

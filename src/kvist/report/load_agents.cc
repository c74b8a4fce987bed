#include "kvist/report/load_agents.h"

#include <fmt/format.h>

#include <chrono>

#include "kvist/analysis/client_verdict.h"
#include "kvist/render/figures.h"
#include "kvist/report/client_json.h"
#include "kvist/report/client_text.h"

namespace kvist::report {
namespace {

analysis::ClientVerdict verdict_on(const LoadAgent& agent, const LoadFigures& figures) {
  return analysis::client_verdict(agent.client, figures.exact().ttft_ms, figures.exact().itl_ms);
}

std::string clock_text(const LoadAgent& agent) {
  if (!agent.clock_ahead) return "clock not compared";
  const char* const way = *agent.clock_ahead < Duration(0) ? "behind" : "ahead";
  const std::string drift =
      agent.clock_drift ? fmt::format(", {:+.3f} ms over the load", to_milliseconds(*agent.clock_drift)) : "";
  return fmt::format("clock {:.3f} ms {} to {:.3f} ms{}", to_milliseconds(std::chrono::abs(*agent.clock_ahead)), way,
                     to_milliseconds(agent.clock_bound), drift);
}

}  // namespace

std::string agents_text(const LoadRun& run, const LoadFigures& figures) {
  std::string text;
  for (const LoadAgent& agent : run.agents) {
    text += fmt::format("agent    {}: {} {}, {} turns, {}; {}{}\n", agent.name, agent.threads,
                        agent.threads == 1 ? "thread" : "threads", render::format_count(agent.turns), clock_text(agent),
                        agent.lost ? "LOST: " + *agent.lost + "; " : "",
                        client_text(agent.client, verdict_on(agent, figures)));
  }
  return text;
}

void write_agents(JsonWriter& json, const LoadRun& run, const LoadFigures& figures) {
  if (run.agents.empty()) return;
  const auto ms = [](const std::optional<Duration>& span) {
    return span ? std::optional(to_milliseconds(*span)) : std::nullopt;
  };
  json.key("agents").begin_array();
  for (const LoadAgent& agent : run.agents) {
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
    write_client(json, agent.client, verdict_on(agent, figures));
    json.end_object();
  }
  json.end_array();
}

}  // namespace kvist::report

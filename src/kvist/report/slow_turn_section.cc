#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "kvist/analysis/mode_names.h"
#include "kvist/render/figures.h"
#include "kvist/report/sections.h"
#include "kvist/report/slow_turn_table.h"

namespace kvist::report {
namespace {

/// How many causes a cell of the cause table names.
constexpr std::size_t kNamedCauses = 3;

std::string causes_cell(const analysis::CauseCounts& counts) {
  std::vector<std::size_t> order;
  for (std::size_t cause = 0; cause < analysis::kSlowCauses; ++cause) {
    if (counts[cause] > 0) order.push_back(cause);
  }
  if (order.empty()) return std::string(render::kMissing);
  std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) { return counts[a] > counts[b]; });
  std::string cell;
  for (std::size_t i = 0; i < std::min(order.size(), kNamedCauses); ++i) {
    cell += fmt::format("{}{} {}", i == 0 ? "" : ", ", to_string(static_cast<analysis::SlowCause>(order[i])),
                        counts[order[i]]);
  }
  return cell;
}

struct Listed {
  const analysis::MeasuredLevel* level;
  const analysis::SlowTurn* turn;
};

std::vector<Listed> slowest_of_run(const analysis::RunAnalysis& analysis) {
  std::vector<Listed> all;
  for (const analysis::MeasuredLevel& level : analysis.levels()) {
    for (const analysis::SlowTurn& turn : analysis::timeline_shown(level).timelines.slowest)
      all.push_back({&level, &turn});
  }
  std::ranges::stable_sort(all, [](const Listed& a, const Listed& b) { return a.turn->ttft_ms > b.turn->ttft_ms; });
  all.resize(std::min(all.size(), analysis::kListedSlowTurns));
  return all;
}

}  // namespace

std::vector<render::Table::Column> slow_turn_columns() {
  return {{"Second"},       {"Worker", render::Align::kLeft},
          {"Turn"},         {"TTFT"},
          {"Prompt"},       {"Cached"},
          {"Running"},      {"Waiting"},
          {"Backlog"},      {"KV used"},
          {"Longest step"}, {"Likely cause", render::Align::kLeft}};
}

std::vector<std::string> slow_turn_cells(const analysis::SlowTurn& turn) {
  const std::optional<analysis::SlowTurn::Reading>& r = turn.reading;
  const auto gauge = [&](auto value) { return r ? render::format_count(value(*r)) : std::string(render::kMissing); };
  return {render::format_fixed(turn.second, 1),
          turn.worker,
          fmt::format("{}/{}", turn.conversation, turn.turn + 1),
          render::format_ms(turn.ttft_ms),
          render::format_count(turn.prompt_tokens),
          render::format_count(turn.cached_tokens),
          gauge([](const analysis::SlowTurn::Reading& reading) { return reading.running; }),
          gauge([](const analysis::SlowTurn::Reading& reading) { return reading.waiting; }),
          gauge([](const analysis::SlowTurn::Reading& reading) { return reading.prefill_backlog_tokens; }),
          render::format_pct(r ? std::optional(100 * r->kv_used) : std::nullopt),
          render::format_ms(r ? std::optional(static_cast<double>(r->step_ms)) : std::nullopt),
          std::string(to_string(turn.cause))};
}

void add_slow_turns(render::Document& document, const analysis::RunAnalysis& analysis) {
  render::Table causes;
  causes.columns = {{"Concurrency"},
                    {"Mode", render::Align::kLeft},
                    {"TTFT p95"},
                    {"Turns above it"},
                    {"Likely causes", render::Align::kLeft}};
  for (const analysis::MeasuredLevel& level : analysis.levels()) {
    const analysis::TimelineView& view = analysis::timeline_shown(level).timelines;
    if (view.empty()) continue;
    std::size_t turns = 0;
    for (const std::size_t n : view.causes) turns += n;
    causes.rows.push_back({fmt::format("{}", level.analysis.concurrency), analysis::short_name(level.analysis.mode),
                           render::format_ms(view.ttft_p95_ms), render::format_count(turns), causes_cell(view.causes)});
  }
  if (causes.rows.empty()) return;
  render::Table slowest;
  slowest.columns = {{"Concurrency"}, {"Mode", render::Align::kLeft}};
  std::ranges::copy(slow_turn_columns(), std::back_inserter(slowest.columns));
  for (const Listed& listed : slowest_of_run(analysis)) {
    std::vector<std::string> row = {fmt::format("{}", listed.level->analysis.concurrency),
                                    analysis::short_name(listed.level->analysis.mode)};
    std::ranges::copy(slow_turn_cells(*listed.turn), std::back_inserter(row));
    slowest.rows.push_back(std::move(row));
  }
  document.push_back(render::Heading{2, "Slowest turns"});
  document.push_back(render::Paragraph{
      {{"Each turn above the exact TTFT p95 of its level is looked up in its worker's timeline, from the reading "
        "before "
        "it was sent to the one after its first token. Its likely cause is the first of these that was seen there: "
        "running requests thrown out of KV memory (preemption); all batch slots taken with requests queued (slot "
        "wait); "
        "requests queued with 90 % of KV memory taken; a quarter of the prompt and 512 tokens or more prefilled "
        "again although the turn before went to the same worker (eviction), because it went to another one (prefix on "
        "another worker), or because nobody had it (own prefill); 1,024 tokens or more of other prompts queued "
        "(prefill "
        "queue); one step that took half of the time (long step). Of several repetitions this is the one with the "
        "highest p95. Every reading is in timeline.csv."}}});
  document.push_back(std::move(causes));
  document.push_back(render::Heading{3, "The slowest turns of the run"});
  document.push_back(render::Paragraph{
      {{"Second: sent, since the start of the level. Turn: conversation / number of its turn. Running, waiting, "
        "backlog "
        "(uncached prompt tokens not yet computed), KV use and step: the worker's largest while the turn waited."}}});
  document.push_back(std::move(slowest));
}

}  // namespace kvist::report

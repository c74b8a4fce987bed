#include <fmt/format.h>

#include <limits>

#include "kvist/analysis/mode_names.h"
#include "kvist/render/figures.h"
#include "kvist/report/sections.h"

namespace kvist::report {
namespace {

using analysis::TurnGroup;

std::string range_text(const TurnGroup& group, std::uint32_t first) {
  if (group.to == std::numeric_limits<std::uint32_t>::max()) {
    return render::format_count(std::uint64_t{group.from} + first) + " and more";
  }
  if (group.from == group.to) return render::format_count(std::uint64_t{group.from} + first);
  return fmt::format("{} to {}", render::format_count(std::uint64_t{group.from} + first),
                     render::format_count(std::uint64_t{group.to} + first));
}

/// `first`: how the first one is counted.
void add_groups(render::Document& document, const analysis::RunAnalysis& analysis, const char* heading,
                const char* title, std::vector<TurnGroup> analysis::LevelAnalysis::* groups, std::uint32_t first) {
  render::Table table;
  table.columns = {
      {"Concurrency"},   {"Mode", render::Align::kLeft}, {title}, {"Turns"}, {"TTFT p50"}, {"TTFT p95"}, {"TPOT p50"},
      {"Cache hit rate"}};
  for (const analysis::MeasuredLevel& level : analysis.levels()) {
    for (const TurnGroup& group : level.analysis.*groups) {
      table.rows.push_back({fmt::format("{}", level.analysis.concurrency), analysis::short_name(level.analysis.mode),
                            range_text(group, first), render::format_count(group.turns),
                            render::format_ms(group.ttft_p50_ms), render::format_ms(group.ttft_p95_ms),
                            render::format_ms(group.tpot_p50_ms), render::format_pct(group.hit_rate_pct)});
    }
  }
  if (table.rows.empty()) return;
  document.push_back(render::Heading{3, heading});
  document.push_back(std::move(table));
}

}  // namespace

void add_turn_groups(render::Document& document, const analysis::RunAnalysis& analysis) {
  document.push_back(render::Heading{2, "By turn and by prompt length"});
  document.push_back(
      render::Paragraph{{{"The same turns as behind the exact percentiles: successful, sent within the measuring "
                          "window. A conversation's "
                          "later turns have longer prompts, most of which a cache may have."}}});
  add_groups(document, analysis, "By turn of the conversation", "Turn", &analysis::LevelAnalysis::by_turn, 1);
  add_groups(document, analysis, "By tokens of the prompt", "Prompt tokens", &analysis::LevelAnalysis::by_prompt, 0);
}

}  // namespace kvist::report

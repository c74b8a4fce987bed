#include "kvist/report/sweep_page.h"

#include <fmt/format.h>

#include <string_view>

#include "kvist/analysis/mode_names.h"
#include "kvist/render/figures.h"
#include "kvist/render/html_page.h"
#include "kvist/report/run_plots.h"
#include "kvist/report/slow_turn_table.h"
#include "kvist/report/sweep_document.h"
#include "kvist/report/timeline_svg.h"

namespace kvist::report {
namespace {

/// One colour per worker of a timeline, by its place: --t0 ... --t7.
constexpr std::string_view kWorkerStyle = R"css(
:root { --t0: #1668c7; --t1: #c2560a; --t2: #17805a; --t3: #8a3fb5; --t4: #a3324a; --t5: #6d6a00; --t6: #00737f; --t7: #6b7785; }
@media (prefers-color-scheme: dark) {
  :root { --t0: #62a8ff; --t1: #f39a57; --t2: #52c79b; --t3: #cf94ef; --t4: #f0859b; --t5: #cdc84a; --t6: #4cc5d2; --t7: #a3afbd; }
}
svg path.t0 { stroke: var(--t0); } svg circle.t0, svg text.t0 { fill: var(--t0); }
svg path.t1 { stroke: var(--t1); } svg circle.t1, svg text.t1 { fill: var(--t1); }
svg path.t2 { stroke: var(--t2); } svg circle.t2, svg text.t2 { fill: var(--t2); }
svg path.t3 { stroke: var(--t3); } svg circle.t3, svg text.t3 { fill: var(--t3); }
svg path.t4 { stroke: var(--t4); } svg circle.t4, svg text.t4 { fill: var(--t4); }
svg path.t5 { stroke: var(--t5); } svg circle.t5, svg text.t5 { fill: var(--t5); }
svg path.t6 { stroke: var(--t6); } svg circle.t6, svg text.t6 { fill: var(--t6); }
svg path.t7 { stroke: var(--t7); } svg circle.t7, svg text.t7 { fill: var(--t7); }
)css";

/// Per level and mode, folded: the drawing, and the slowest turns as a table.
void append_timelines(std::string& out, const analysis::RunAnalysis& analysis) {
  std::string levels;
  for (const analysis::MeasuredLevel& level : analysis.levels()) {
    const analysis::Measurement& shown = analysis::timeline_shown(level);
    if (shown.timelines.empty()) continue;
    std::string title = fmt::format("{} at {}: TTFT p95 {}", analysis::long_name(level.analysis.mode),
                                    level.analysis.concurrency, render::format_ms(shown.timelines.ttft_p95_ms));
    if (level.repetitions.size() > 1) {
      title +=
          fmt::format(" (repetition {} of {}, the highest)", shown.record.repetition + 1, level.repetitions.size());
    }
    levels += "<details class=\"timeline\"><summary>" + render::escape_html(title) + "</summary>\n";
    levels += render_timeline(shown.timelines, title);
    render::Table table{.columns = slow_turn_columns(), .rows = {}};
    for (const analysis::SlowTurn& turn : shown.timelines.slowest) table.rows.push_back(slow_turn_cells(turn));
    levels += render::html_of({std::move(table)}, {}) + "</details>\n";
  }
  if (levels.empty()) return;
  out +=
      "<h2>Timelines</h2>\n<p>What each worker did over time, and below it each turn's TTFT at the instant it was "
      "sent, "
      "in the colour of its worker; ringed: above the level's p95 (dashed). Below the drawing its slowest turns. "
      "Turns up to p95 are thinned out, long timelines joined; timeline.csv has every reading.</p>\n";
  out += levels;
}

}  // namespace

std::string sweep_page(const analysis::RunAnalysis& analysis) {
  std::string plots;
  if (!analysis.levels().empty()) {
    plots += render::plots_html(plots_over_levels(analysis));
    plots += "<h3>TTFT of all turns</h3>\n";
    plots += render::plots_html(ttft_distributions(analysis));
    if (const auto groups = ttft_by_groups(analysis); !groups.empty()) {
      plots += "<h3>TTFT by turn and by prompt length</h3>\n" + render::plots_html(groups);
    }
  }
  std::string body = render::html_of(build_document(analysis), plots);
  append_timelines(body, analysis);
  return render::page_around(analysis.run().name + " - " + title_of(analysis), body, kWorkerStyle);
}

}  // namespace kvist::report

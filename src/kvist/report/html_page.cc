#include "kvist/report/html_page.h"

#include <fmt/format.h>

#include <string_view>

#include "kvist/report/document.h"
#include "kvist/report/figures.h"
#include "kvist/report/mode_names.h"
#include "kvist/report/run_plots.h"
#include "kvist/report/slow_turn_table.h"
#include "kvist/report/sweep_document.h"
#include "kvist/report/timeline_svg.h"

namespace kvist::report {
namespace {

// One colour per mode, of equal weight on both backgrounds and told apart by the colour-blind too.
constexpr std::string_view kStyle = R"css(
:root { color-scheme: light dark; --page: #ffffff; --ink: #1c2330; --soft: #5b6573; --rule: #dde2e8; --panel: #f5f7f9;
  --s0: #6b7785; --s1: #1668c7; --s2: #c2560a; --s3: #17805a; --s4: #8a3fb5;
  --s5: #a3324a; --s6: #6d6a00; --s7: #00737f; --s8: #b8860b; }
@media (prefers-color-scheme: dark) {
  :root { --page: #12161c; --ink: #e4e8ee; --soft: #9aa5b4; --rule: #2c343f; --panel: #1a2028;
    --s0: #a3afbd; --s1: #62a8ff; --s2: #f39a57; --s3: #52c79b; --s4: #cf94ef;
    --s5: #f0859b; --s6: #cdc84a; --s7: #4cc5d2; --s8: #e0b040; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2rem 1.25rem 4rem; max-width: 76rem; background: var(--page); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 2rem 0 .5rem; }
h1:first-child { margin-top: 0; }
h2 { font-size: 1.25rem; margin: 2.5rem 0 .75rem; padding-top: .75rem; border-top: 1px solid var(--rule); }
h3 { font-size: 1.02rem; margin: 1.75rem 0 .5rem; }
p { max-width: 52rem; }
h2 + ul { background: var(--panel); border: 1px solid var(--rule); border-radius: 8px; padding: .9rem 1.2rem .9rem 2.2rem; }
li { margin: .15rem 0; max-width: 60rem; }
code, pre { font: .88em/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
pre { background: var(--panel); border: 1px solid var(--rule); border-radius: 8px; padding: 1rem; overflow: auto; max-height: 32rem; }
summary { cursor: pointer; color: var(--soft); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .92rem; font-variant-numeric: tabular-nums; }
th, td { padding: .32rem .8rem; border-bottom: 1px solid var(--rule); text-align: left; vertical-align: top; }
th { color: var(--soft); font-weight: 600; vertical-align: bottom; }
th.figure, td.figure { text-align: right; white-space: nowrap; }
th.figure { white-space: normal; }
tbody tr:hover { background: var(--panel); }
.plots { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 25rem), 1fr)); gap: 1.25rem; margin: 1.5rem 0; }
figure.plot { margin: 0; padding: .9rem 1rem .6rem; border: 1px solid var(--rule); border-radius: 8px; background: var(--panel); }
figcaption { font-weight: 600; }
.legend { display: flex; flex-wrap: wrap; gap: .1rem 1rem; margin: .2rem 0 .4rem; font-size: .82rem; color: var(--soft); }
.legend span { display: inline-flex; align-items: center; gap: .4rem; }
figure.plot > svg { display: block; width: 100%; height: auto; }
svg text { font: 11px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; fill: var(--soft); font-variant-numeric: tabular-nums; }
svg .grid { stroke: var(--rule); stroke-width: 1; }
svg .base { stroke: var(--soft); stroke-width: 1; }
svg .line { fill: none; stroke-width: 2; stroke-linejoin: round; stroke-linecap: round; }
svg .band { opacity: .16; }
svg .b0 { fill: var(--s0); } svg .b1 { fill: var(--s1); } svg .b2 { fill: var(--s2); } svg .b3 { fill: var(--s3); } svg .b4 { fill: var(--s4); }
svg .b5 { fill: var(--s5); } svg .b6 { fill: var(--s6); } svg .b7 { fill: var(--s7); } svg .b8 { fill: var(--s8); }
details.timeline { margin: .5rem 0; }
figure.timeline { margin: .75rem 0; }
figure.timeline p { font-size: .85rem; color: var(--soft); margin: .2rem 0; }
svg .frame { fill: none; stroke: var(--rule); } svg .warm { fill: var(--rule); opacity: .35; }
svg .track { fill: none; stroke-width: 1.2; stroke-linejoin: round; }
svg .cap { fill: none; stroke: var(--soft); stroke-dasharray: 3 3; }
svg text.name { font-weight: 600; }
svg .slow { stroke: var(--ink); stroke-width: 1; }
svg .other { fill: var(--soft); }
svg .dashed { stroke-dasharray: 5 4; }
svg .mark { stroke-width: 1.5; }
svg .mark.hollow { fill: var(--panel); }
svg .s0 { stroke: var(--s0); } svg .mark.s0:not(.hollow) { fill: var(--s0); }
svg .s1 { stroke: var(--s1); } svg .mark.s1:not(.hollow) { fill: var(--s1); }
svg .s2 { stroke: var(--s2); } svg .mark.s2:not(.hollow) { fill: var(--s2); }
svg .s3 { stroke: var(--s3); } svg .mark.s3:not(.hollow) { fill: var(--s3); }
svg .s4 { stroke: var(--s4); } svg .mark.s4:not(.hollow) { fill: var(--s4); }
svg .s5 { stroke: var(--s5); } svg .mark.s5:not(.hollow) { fill: var(--s5); }
svg .s6 { stroke: var(--s6); } svg .mark.s6:not(.hollow) { fill: var(--s6); }
svg .s7 { stroke: var(--s7); } svg .mark.s7:not(.hollow) { fill: var(--s7); }
svg .s8 { stroke: var(--s8); } svg .mark.s8:not(.hollow) { fill: var(--s8); }
)css";

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

void append_plots(std::string& out, const std::vector<Plot>& plots) {
  out += "<div class=\"plots\">\n";
  for (const Plot& plot : plots) out += render_svg(plot);
  out += "</div>\n";
}

/// Per level and mode, folded: the drawing, and the slowest turns as a table.
void append_timelines(std::string& out, const RunAnalysis& analysis) {
  std::string levels;
  for (const MeasuredLevel& level : analysis.levels()) {
    const Measurement& shown = timeline_shown(level);
    if (shown.timelines.empty()) continue;
    std::string title = fmt::format("{} at {}: TTFT p95 {}", long_name(level.analysis.mode), level.analysis.concurrency,
                                    format_ms(shown.timelines.ttft_p95_ms));
    if (level.repetitions.size() > 1) {
      title +=
          fmt::format(" (repetition {} of {}, the highest)", shown.record.repetition + 1, level.repetitions.size());
    }
    levels += "<details class=\"timeline\"><summary>" + escape_html(title) + "</summary>\n";
    levels += render_timeline(shown.timelines, title);
    Table table{.columns = slow_turn_columns(), .rows = {}};
    for (const SlowTurn& turn : shown.timelines.slowest) table.rows.push_back(slow_turn_cells(turn));
    levels += html_of({std::move(table)}, {}) + "</details>\n";
  }
  if (levels.empty()) return;
  out +=
      "<h2>Timelines</h2>\n<p>What each worker did over time, and below it each turn's TTFT at the instant it was "
      "sent, "
      "in the colour of its worker; ringed: above the level's p95 (dashed). Below the drawing its slowest turns. "
      "Turns up to p95 are thinned out, long timelines joined; timeline.csv has every reading.</p>\n";
  out += levels;
}

std::string page_around(const std::string& body, const std::string& title) {
  std::string page = "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n";
  page += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>";
  page += escape_html(title);
  page += "</title>\n<style>";
  page += kStyle;
  page += kWorkerStyle;
  page += "</style>\n</head>\n<body>\n";
  page += body;
  page += "</body>\n</html>\n";
  return page;
}

}  // namespace

std::string html_page(const RunAnalysis& analysis) {
  std::string plots;
  if (!analysis.levels().empty()) {
    append_plots(plots, plots_over_levels(analysis));
    plots += "<h3>TTFT of all turns</h3>\n";
    append_plots(plots, ttft_distributions(analysis));
  }
  std::string body = html_of(build_document(analysis), plots);
  append_timelines(body, analysis);
  return page_around(body, analysis.run().name + " - " + title_of(analysis));
}

std::string html_page(const std::string& title, const Document& document, const std::vector<Plot>& plots) {
  std::string drawn;
  if (!plots.empty()) append_plots(drawn, plots);
  return page_around(html_of(document, drawn), title);
}

}  // namespace kvist::report

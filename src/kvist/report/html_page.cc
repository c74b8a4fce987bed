#include "kvist/report/html_page.h"

#include <string_view>

#include "kvist/report/document.h"
#include "kvist/report/run_plots.h"
#include "kvist/report/sweep_document.h"

namespace kvist::report {
namespace {

// One colour per mode, of equal weight on both backgrounds and told apart by the colour-blind too.
constexpr std::string_view kStyle = R"css(
:root { color-scheme: light dark; --page: #ffffff; --ink: #1c2330; --soft: #5b6573; --rule: #dde2e8; --panel: #f5f7f9;
  --s0: #6b7785; --s1: #1668c7; --s2: #c2560a; --s3: #17805a; --s4: #8a3fb5; }
@media (prefers-color-scheme: dark) {
  :root { --page: #12161c; --ink: #e4e8ee; --soft: #9aa5b4; --rule: #2c343f; --panel: #1a2028;
    --s0: #a3afbd; --s1: #62a8ff; --s2: #f39a57; --s3: #52c79b; --s4: #cf94ef; }
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
svg .dashed { stroke-dasharray: 5 4; }
svg .mark { stroke-width: 1.5; }
svg .mark.hollow { fill: var(--panel); }
svg .s0 { stroke: var(--s0); } svg .mark.s0:not(.hollow) { fill: var(--s0); }
svg .s1 { stroke: var(--s1); } svg .mark.s1:not(.hollow) { fill: var(--s1); }
svg .s2 { stroke: var(--s2); } svg .mark.s2:not(.hollow) { fill: var(--s2); }
svg .s3 { stroke: var(--s3); } svg .mark.s3:not(.hollow) { fill: var(--s3); }
svg .s4 { stroke: var(--s4); } svg .mark.s4:not(.hollow) { fill: var(--s4); }
)css";

void append_plots(std::string& out, const std::vector<Plot>& plots) {
  out += "<div class=\"plots\">\n";
  for (const Plot& plot : plots) out += render_svg(plot);
  out += "</div>\n";
}

}  // namespace

std::string html_page(const RunAnalysis& analysis) {
  std::string plots;
  if (!analysis.levels().empty()) {
    append_plots(plots, plots_over_levels(analysis));
    plots += "<h3>TTFT of all turns</h3>\n";
    append_plots(plots, ttft_distributions(analysis));
  }
  std::string page = "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n";
  page += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>";
  page += escape_html(analysis.run().name + " - " + title_of(analysis));
  page += "</title>\n<style>";
  page += kStyle;
  page += "</style>\n</head>\n<body>\n";
  page += html_of(build_document(analysis), plots);
  page += "</body>\n</html>\n";
  return page;
}

}  // namespace kvist::report

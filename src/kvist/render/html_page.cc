#include "kvist/render/html_page.h"

#include <string_view>

namespace kvist::render {
namespace {

// One colour per mode, of equal contrast on both backgrounds and distinguishable for colour-blind readers.
constexpr std::string_view kStyle = R"css(
:root { color-scheme: light dark; --page: #ffffff; --ink: #1c2330; --soft: #5b6573; --rule: #dde2e8; --panel: #f5f7f9;
  --s0: #6b7785; --s1: #1668c7; --s2: #c2560a; --s3: #17805a; --s4: #8a3fb5;
  --s5: #a3324a; --s6: #6d6a00; --s7: #00737f; --s8: #b8860b;
  --s9: #5b4bb7; --s10: #7a4a2b; --s11: #d1367f; --s12: #4c8c1f; --s13: #1f4e79; --s14: #b04a00; --s15: #006b3c; }
@media (prefers-color-scheme: dark) {
  :root { --page: #12161c; --ink: #e4e8ee; --soft: #9aa5b4; --rule: #2c343f; --panel: #1a2028;
    --s0: #a3afbd; --s1: #62a8ff; --s2: #f39a57; --s3: #52c79b; --s4: #cf94ef;
    --s5: #f0859b; --s6: #cdc84a; --s7: #4cc5d2; --s8: #e0b040;
    --s9: #a99bff; --s10: #d0a27c; --s11: #ff8cc0; --s12: #9fd46a; --s13: #8fb8e0; --s14: #ffb27a; --s15: #7fdcb0; }
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
@media (max-width: 40rem) { figure.plot svg text { font-size: 15px; } }
svg .grid { stroke: var(--rule); stroke-width: 1; }
svg .base { stroke: var(--soft); stroke-width: 1; }
svg .line { fill: none; stroke-width: 2; stroke-linejoin: round; stroke-linecap: round; }
svg .band { opacity: .16; }
svg .b0 { fill: var(--s0); } svg .b1 { fill: var(--s1); } svg .b2 { fill: var(--s2); } svg .b3 { fill: var(--s3); } svg .b4 { fill: var(--s4); }
svg .b5 { fill: var(--s5); } svg .b6 { fill: var(--s6); } svg .b7 { fill: var(--s7); } svg .b8 { fill: var(--s8); }
svg .b9 { fill: var(--s9); } svg .b10 { fill: var(--s10); } svg .b11 { fill: var(--s11); } svg .b12 { fill: var(--s12); } svg .b13 { fill: var(--s13); } svg .b14 { fill: var(--s14); } svg .b15 { fill: var(--s15); }
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
svg .s9 { stroke: var(--s9); } svg .mark.s9:not(.hollow) { fill: var(--s9); }
svg .s10 { stroke: var(--s10); } svg .mark.s10:not(.hollow) { fill: var(--s10); }
svg .s11 { stroke: var(--s11); } svg .mark.s11:not(.hollow) { fill: var(--s11); }
svg .s12 { stroke: var(--s12); } svg .mark.s12:not(.hollow) { fill: var(--s12); }
svg .s13 { stroke: var(--s13); } svg .mark.s13:not(.hollow) { fill: var(--s13); }
svg .s14 { stroke: var(--s14); } svg .mark.s14:not(.hollow) { fill: var(--s14); }
svg .s15 { stroke: var(--s15); } svg .mark.s15:not(.hollow) { fill: var(--s15); }
)css";

}  // namespace

std::string plots_html(const std::vector<Plot>& plots) {
  if (plots.empty()) return {};
  std::string out = "<div class=\"plots\">\n";
  for (const Plot& plot : plots) out += render_svg(plot);
  return out + "</div>\n";
}

std::string page_around(const std::string& title, const std::string& body, std::string_view style) {
  std::string page = "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n";
  page += "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>";
  page += escape_html(title);
  page += "</title>\n<style>";
  page += kStyle;
  page += style;
  page += "</style>\n</head>\n<body>\n";
  page += body;
  page += "</body>\n</html>\n";
  return page;
}

std::string html_page(const std::string& title, const Document& document, const std::vector<Plot>& plots) {
  return page_around(title, html_of(document, plots_html(plots)), {});
}

}  // namespace kvist::render

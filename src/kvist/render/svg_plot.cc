#include "kvist/render/svg_plot.h"

#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <string_view>

#include "kvist/render/document.h"

namespace kvist::render {
namespace {

// The drawing's own units; the page scales it to the width it has.
constexpr double kWidth = 480;
constexpr double kHeight = 270;
constexpr double kLeft = 70;
constexpr double kRight = 12;
constexpr double kTop = 10;
constexpr double kBottom = 44;
constexpr double kMarkRadius = 3.5;
/// Of the style sheets: as many as there are routing modes. A line without one would not be seen.
constexpr std::size_t kColours = 16;

std::size_t colour_of(const PlotSeries& series) {
  return series.colour % kColours;
}

class Drawing {
 public:
  Drawing(const Plot& plot, std::string& out)
      : plot_(plot), out_(out), x_(plot.x_kind, values(plot, true)), y_(plot.y_kind, values(plot, false)) {}

  /// `place` is further attributes of the element.
  void draw(std::string_view place = {}) {
    append("<svg {}viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">\n", place, kWidth, kHeight,
           escape_html(plot_.title));
    draw_y_axis();
    draw_x_axis();
    for (const PlotSeries& series : plot_.series) draw_band(series);
    for (const PlotSeries& series : plot_.series) draw_line(series);
    for (const PlotSeries& series : plot_.series) draw_marks(series);
    append("</svg>\n");
  }

 private:
  template <class... Args>
  void append(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
  }

  static bool drawable(const PlotPoint& point) { return point.y && std::isfinite(*point.y) && std::isfinite(point.x); }

  static bool has_band(const PlotPoint& point) {
    return drawable(point) && point.low && point.high && std::isfinite(*point.low) && std::isfinite(*point.high);
  }

  static std::vector<double> values(const Plot& plot, bool of_x) {
    std::vector<double> all;
    for (const PlotSeries& series : plot.series) {
      for (const PlotPoint& point : series.points) {
        if (of_x) {
          all.push_back(point.x);
        } else if (point.y) {
          all.push_back(*point.y);
          if (has_band(point)) all.insert(all.end(), {*point.low, *point.high});
        }
      }
    }
    return all;
  }

  [[nodiscard]] double x_of(double value) const { return kLeft + x_.position(value) * (kWidth - kLeft - kRight); }
  [[nodiscard]] double y_of(double value) const {
    return kHeight - kBottom - y_.position(value) * (kHeight - kTop - kBottom);
  }

  void draw_y_axis() {
    for (const double tick : y_.ticks()) {
      const double y = y_of(tick);
      append("<line class=\"grid\" x1=\"{}\" y1=\"{:.1f}\" x2=\"{}\" y2=\"{:.1f}\"/>", kLeft, y, kWidth - kRight, y);
      append("<text class=\"tick\" x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n", kLeft - 6, y + 3.5,
             format_tick(tick));
    }
    if (y_.goes_below_zero()) {
      append("<line class=\"base\" x1=\"{0}\" y1=\"{1:.1f}\" x2=\"{2}\" y2=\"{1:.1f}\"/>\n", kLeft, y_of(0),
             kWidth - kRight);
    }
    const double middle = (kTop + kHeight - kBottom) / 2;
    append("<text class=\"axis\" text-anchor=\"middle\" transform=\"translate(13 {:.1f}) rotate(-90)\">{}</text>\n",
           middle, escape_html(plot_.y_title));
  }

  void draw_x_axis() {
    const double base = kHeight - kBottom;
    append("<line class=\"base\" x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"/>", kLeft, base, kWidth - kRight, base);
    for (const double tick : x_.ticks()) {
      append("<text class=\"tick\" x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n", x_of(tick), base + 15,
             format_tick(tick));
    }
    append("<text class=\"axis\" x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n", (kLeft + kWidth - kRight) / 2,
           kHeight - 8, escape_html(plot_.x_title));
  }

  /// Neighbouring points with a band, each pair as one area.
  void draw_band(const PlotSeries& series) {
    std::string path;
    for (std::size_t i = 1; i < series.points.size(); ++i) {
      const PlotPoint& a = series.points[i - 1];
      const PlotPoint& b = series.points[i];
      if (!has_band(a) || !has_band(b)) continue;
      fmt::format_to(std::back_inserter(path), "M{0:.1f} {1:.1f}L{2:.1f} {3:.1f}L{2:.1f} {4:.1f}L{0:.1f} {5:.1f}Z",
                     x_of(a.x), y_of(*a.high), x_of(b.x), y_of(*b.high), y_of(*b.low), y_of(*a.low));
    }
    if (!path.empty()) append("<path class=\"band b{}\" d=\"{}\"/>\n", colour_of(series), path);
  }

  void draw_line(const PlotSeries& series) {
    std::string path;
    bool pen_down = false;
    for (const PlotPoint& point : series.points) {
      if (!drawable(point)) {
        pen_down = false;
        continue;
      }
      fmt::format_to(std::back_inserter(path), "{}{:.1f} {:.1f}", pen_down ? 'L' : 'M', x_of(point.x), y_of(*point.y));
      pen_down = true;
    }
    if (path.empty()) return;
    append("<path class=\"line s{}{}\" d=\"{}\"/>\n", colour_of(series), series.dashed ? " dashed" : "", path);
  }

  void draw_marks(const PlotSeries& series) {
    for (const PlotPoint& point : series.points) {
      if (point.tooltip.empty() || !drawable(point)) continue;
      append("<circle class=\"mark s{}{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\"><title>{}</title></circle>\n",
             colour_of(series), series.dashed ? " hollow" : "", x_of(point.x), y_of(*point.y), kMarkRadius,
             escape_html(point.tooltip));
    }
  }

  const Plot& plot_;
  std::string& out_;
  AxisScale x_;
  AxisScale y_;
};

void append_legend(std::string& out, const std::vector<PlotSeries>& series) {
  out += "<div class=\"legend\">";
  for (const PlotSeries& s : series) {
    out += fmt::format(
        "<span><svg viewBox=\"0 0 26 10\" width=\"26\" height=\"10\" aria-hidden=\"true\"><path class=\"line s{0}{1}\" "
        "d=\"M1 5L25 5\"/><circle class=\"mark s{0}{2}\" cx=\"13\" cy=\"5\" r=\"3\"/></svg>{3}</span>",
        colour_of(s), s.dashed ? " dashed" : "", s.dashed ? " hollow" : "", escape_html(s.name));
  }
  out += "</div>\n";
}

}  // namespace

std::string render_svg(const Plot& plot) {
  std::string out = "<figure class=\"plot\">\n<figcaption>" + escape_html(plot.title) + "</figcaption>\n";
  append_legend(out, plot.series);
  Drawing(plot, out).draw();
  out += "</figure>\n";
  return out;
}

namespace {

constexpr double kTitleHeight = 26;
constexpr double kLegendRow = 20;
constexpr double kMargin = 12;

// Always light, because it is shown as an image and does not know its surroundings.
constexpr std::string_view kSheetStyle = R"css(
text { font: 11px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; fill: #5b6573; }
text.title { font-size: 14px; font-weight: 600; fill: #1c2330; } text.legend { font-size: 12px; fill: #1c2330; }
.grid { stroke: #dde2e8; } .base { stroke: #5b6573; } .band { opacity: .18; }
.line { fill: none; stroke-width: 2; stroke-linejoin: round; stroke-linecap: round; } .dashed { stroke-dasharray: 5 4; }
.mark { stroke-width: 1.5; } .mark.hollow { fill: #ffffff; }
.s0 { stroke: #6b7785; } .b0, .mark.s0:not(.hollow) { fill: #6b7785; }
.s1 { stroke: #1668c7; } .b1, .mark.s1:not(.hollow) { fill: #1668c7; }
.s2 { stroke: #c2560a; } .b2, .mark.s2:not(.hollow) { fill: #c2560a; }
.s3 { stroke: #17805a; } .b3, .mark.s3:not(.hollow) { fill: #17805a; }
.s4 { stroke: #8a3fb5; } .b4, .mark.s4:not(.hollow) { fill: #8a3fb5; }
.s5 { stroke: #a3324a; } .b5, .mark.s5:not(.hollow) { fill: #a3324a; }
.s6 { stroke: #6d6a00; } .b6, .mark.s6:not(.hollow) { fill: #6d6a00; }
.s7 { stroke: #00737f; } .b7, .mark.s7:not(.hollow) { fill: #00737f; }
.s8 { stroke: #b8860b; } .b8, .mark.s8:not(.hollow) { fill: #b8860b; }
.s9 { stroke: #5b4bb7; } .b9, .mark.s9:not(.hollow) { fill: #5b4bb7; }
.s10 { stroke: #7a4a2b; } .b10, .mark.s10:not(.hollow) { fill: #7a4a2b; }
.s11 { stroke: #d1367f; } .b11, .mark.s11:not(.hollow) { fill: #d1367f; }
.s12 { stroke: #4c8c1f; } .b12, .mark.s12:not(.hollow) { fill: #4c8c1f; }
.s13 { stroke: #1f4e79; } .b13, .mark.s13:not(.hollow) { fill: #1f4e79; }
.s14 { stroke: #b04a00; } .b14, .mark.s14:not(.hollow) { fill: #b04a00; }
.s15 { stroke: #006b3c; } .b15, .mark.s15:not(.hollow) { fill: #006b3c; }
)css";

void append_sheet_legend(std::string& out, const std::vector<PlotSeries>& series) {
  double y = kMargin + 8;
  for (const PlotSeries& s : series) {
    out += fmt::format(
        "<path class=\"line s{0}{1}\" d=\"M{2} {3}h30\"/><circle class=\"mark s{0}{4}\" cx=\"{5}\" cy=\"{3}\" "
        "r=\"3.5\"/>"
        "<text class=\"legend\" x=\"{6}\" y=\"{7}\">{8}</text>\n",
        colour_of(s), s.dashed ? " dashed" : "", kMargin, y, s.dashed ? " hollow" : "", kMargin + 15, kMargin + 38,
        y + 4, escape_html(s.name));
    y += kLegendRow;
  }
}

}  // namespace

std::string render_svg_sheet(const std::vector<Plot>& plots, std::size_t columns) {
  const std::size_t rows = (plots.size() + columns - 1) / columns;
  const double top = plots.empty() ? 0 : kMargin + kLegendRow * static_cast<double>(plots.front().series.size());
  const double width = kWidth * static_cast<double>(columns) + 2 * kMargin;
  const double height = top + static_cast<double>(rows) * (kHeight + kTitleHeight) + kMargin;
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\">\n<style>{2}"
      "</style>\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n",
      width, height, kSheetStyle);
  if (!plots.empty()) append_sheet_legend(out, plots.front().series);
  for (std::size_t i = 0; i < plots.size(); ++i) {
    const double x = kMargin + kWidth * static_cast<double>(i % columns);
    const double y = top + (kHeight + kTitleHeight) * static_cast<double>(i / columns);
    out += fmt::format("<text class=\"title\" x=\"{:.0f}\" y=\"{:.0f}\">{}</text>\n", x + kLeft, y + 19,
                       escape_html(plots[i].title));
    Drawing(plots[i], out)
        .draw(
            fmt::format("x=\"{:.0f}\" y=\"{:.0f}\" width=\"{}\" height=\"{}\" ", x, y + kTitleHeight, kWidth, kHeight));
  }
  return out + "</svg>\n";
}

}  // namespace kvist::render

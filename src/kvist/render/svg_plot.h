// Line plots as inline SVG. Colours come from the page's style sheet, so that they follow light and dark.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "kvist/render/axis_scale.h"

namespace kvist::render {

struct PlotPoint {
  double x = 0;
  std::optional<double> y;         ///< a missing value interrupts the line
  std::string tooltip;             ///< a point with a tooltip is drawn as a mark
  std::optional<double> low = {};  ///< together with `high`, the band around the line
  std::optional<double> high = {};
};

struct PlotSeries {
  std::string name;
  /// Number of the mode: the class s0, s1, ... of the style sheet. After its last they begin anew.
  std::size_t colour = 0;
  bool dashed = false;
  std::vector<PlotPoint> points;
};

struct Plot {
  std::string title;
  std::string x_title;  ///< with its unit
  std::string y_title;
  AxisScale::Kind x_kind = AxisScale::Kind::kLevels;
  AxisScale::Kind y_kind = AxisScale::Kind::kLinearFromZero;
  std::vector<PlotSeries> series;
};

/// A <figure> with title, legend and drawing. All text is escaped.
[[nodiscard]] std::string render_svg(const Plot& plot);

/// Plots of the same series as one SVG file, `columns` side by side, with one legend and a style sheet.
[[nodiscard]] std::string render_svg_sheet(const std::vector<Plot>& plots, std::size_t columns);

}  // namespace kvist::render

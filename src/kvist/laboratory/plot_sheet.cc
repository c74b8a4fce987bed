#include "kvist/laboratory/plot_sheet.h"

#include <utility>
#include <vector>

#include "kvist/base/json.h"
#include "kvist/render/svg_plot.h"

namespace kvist::laboratory {
namespace {

constexpr double kLargest = 1e15;
constexpr std::uint64_t kMostColours = 9;  // of the style sheet
constexpr std::uint64_t kMostColumns = 8;

Result<render::PlotPoint> read_point(const JsonValue& value) {
  KVIST_TRY(const JsonArray pair, value.as_array("a pair [x, y]"));
  if (pair.size() != 2) return value.wrong("expected a pair [x, y]");
  auto member = pair.begin();
  render::PlotPoint point;
  KVIST_TRY(point.x, (*member).as_double(-kLargest, kLargest));
  ++member;
  if ((*member).is_null()) return point;
  KVIST_TRY(point.y, (*member).as_double(-kLargest, kLargest));
  return point;
}

Result<render::PlotSeries> read_series(const JsonObject& from) {
  render::PlotSeries series;
  KVIST_TRY(series.name, from.require_string("name"));
  KVIST_TRY(series.colour, from.require_unsigned("colour", 0, kMostColours - 1));
  KVIST_TRY(series.dashed, from.bool_or("dashed", false));
  KVIST_TRY(const JsonArray points, from.require_array("points"));
  for (const JsonValue& value : points) {
    KVIST_TRY(render::PlotPoint point, read_point(value));
    point.tooltip = series.name;
    series.points.push_back(std::move(point));
  }
  KVIST_TRY_VOID(from.finish());
  return series;
}

Result<render::Plot> read_plot(const JsonObject& from) {
  render::Plot plot;
  KVIST_TRY(plot.title, from.require_string("title"));
  KVIST_TRY(plot.x_title, from.require_string("x_title"));
  KVIST_TRY(plot.y_title, from.require_string("y_title"));
  KVIST_TRY(const bool logarithmic, from.bool_or("logarithmic", false));
  if (logarithmic) plot.y_kind = render::AxisScale::Kind::kLogarithmic;
  KVIST_TRY(const JsonArray series, from.require_array("series"));
  for (const JsonValue& value : series) {
    KVIST_TRY(const JsonObject one, value.as_object());
    KVIST_TRY(render::PlotSeries read, read_series(one));
    plot.series.push_back(std::move(read));
  }
  KVIST_TRY_VOID(from.finish());
  return plot;
}

}  // namespace

Result<std::string> plot_sheet(std::string_view json) {
  JsonDocument document;
  KVIST_TRY(const JsonObject root, document.parse_object(json));
  KVIST_TRY(const std::uint64_t columns, root.require_unsigned("columns", 1, kMostColumns));
  KVIST_TRY(const JsonArray entries, root.require_array("plots"));
  std::vector<render::Plot> plots;
  for (const JsonValue& value : entries) {
    KVIST_TRY(const JsonObject entry, value.as_object());
    KVIST_TRY(render::Plot plot, read_plot(entry));
    plots.push_back(std::move(plot));
  }
  KVIST_TRY_VOID(root.finish());
  if (plots.empty()) return fail(ErrorCode::kInvalidArgument, "plots: expected at least one");
  return render::render_svg_sheet(plots, columns);
}

}  // namespace kvist::laboratory

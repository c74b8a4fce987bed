#include "kvist/report/timeline_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "kvist/render/axis_scale.h"
#include "kvist/render/document.h"
#include "kvist/render/figures.h"

namespace kvist::report {
namespace {

// User units of the drawing; the page scales it to its width.
constexpr double kWidth = 1'080;
constexpr double kLeft = 74;
constexpr double kRight = 8;
constexpr double kGap = 14;        // between columns
constexpr double kHead = 20;       // the workers' names
constexpr double kRowHeight = 58;  // of a gauge
constexpr double kRowGap = 14;
constexpr double kTurnsHeight = 150;
constexpr double kFoot = 34;

using Value = double (*)(const results::TimelinePoint& point, const analysis::WorkerTrack& track);

struct Row {
  const char* title;
  Value value;
  bool rises = false;   // a counter: the increase since the previous point is drawn
  bool capped = false;  // with a line at the batch slots
};

constexpr Row kRows[] = {
    {"batch slots", [](const auto& p, const auto&) { return static_cast<double>(p.running); }, false, true},
    {"queue", [](const auto& p, const auto&) { return static_cast<double>(p.waiting); }},
    {"KV use %",
     [](const auto& p, const auto& t) { return t.kv_blocks > 0 ? 100.0 * p.kv_blocks_used / t.kv_blocks : 0; }},
    {"evictions", [](const auto& p, const auto&) { return static_cast<double>(p.evictions); }, true},
    {"preemptions", [](const auto& p, const auto&) { return static_cast<double>(p.preemptions); }, true},
    {"backlog", [](const auto& p, const auto&) { return static_cast<double>(p.prefill_backlog_tokens); }},
    {"step, ms", [](const auto& p, const auto&) { return static_cast<double>(p.step_ms); }},
};
constexpr double kGaugesHeight = std::size(kRows) * (kRowHeight + kRowGap);
constexpr double kTurnsTop = kHead + kGaugesHeight + 6;
constexpr double kHeight = kTurnsTop + kTurnsHeight + kFoot;

std::vector<double> values_of(const analysis::WorkerTrack& track, const Row& row) {
  std::vector<double> values;
  double before = 0;
  for (const results::TimelinePoint& point : track.points) {
    const double value = row.value(point, track);
    values.push_back(row.rises ? std::max(0.0, value - before) : value);
    before = value;
  }
  return values;
}

class TimelineDrawing {
 public:
  TimelineDrawing(const analysis::TimelineView& view, std::string& out) : view_(view), out_(out) {
    const double columns = static_cast<double>(view.tracks.size());
    column_width_ = (kWidth - kLeft - kRight - kGap * (columns - 1)) / columns;
    last_second_ = std::max(1.0, view.measure_to_s);
    for (const analysis::WorkerTrack& track : view.tracks) {
      if (!track.seconds.empty()) last_second_ = std::max(last_second_, track.seconds.back());
    }
  }

  void draw(const std::string& title) {
    append("<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">\n", kWidth, kHeight, render::escape_html(title));
    for (std::size_t i = 0; i < view_.tracks.size(); ++i) {
      append("<text class=\"name t{}\" x=\"{:.1f}\" y=\"13\" text-anchor=\"middle\">{}</text>\n", i,
             column_left(i) + column_width_ / 2, render::escape_html(view_.tracks[i].worker));
    }
    for (std::size_t row = 0; row < std::size(kRows); ++row) draw_row(row);
    draw_turns();
    append("</svg>\n");
  }

 private:
  template <class... Args>
  void append(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
  }

  [[nodiscard]] double column_left(std::size_t column) const {
    return kLeft + static_cast<double>(column) * (column_width_ + kGap);
  }
  [[nodiscard]] double x_in(double left, double width, double second) const {
    return left + std::clamp(second / last_second_, 0.0, 1.0) * width;
  }

  void draw_frame(double left, double top, double width, double height) {
    append("<rect class=\"warm\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{}\"/>", left, top,
           x_in(left, width, view_.measure_from_s) - left, height);
    append("<rect class=\"warm\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{}\"/>",
           x_in(left, width, view_.measure_to_s), top, left + width - x_in(left, width, view_.measure_to_s), height);
    append("<rect class=\"frame\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{}\"/>\n", left, top, width,
           height);
  }

  void draw_row(std::size_t number) {
    const Row& row = kRows[number];
    const double top = kHead + static_cast<double>(number) * (kRowHeight + kRowGap);
    std::vector<std::vector<double>> columns;
    std::vector<double> all;
    for (const analysis::WorkerTrack& track : view_.tracks) {
      columns.push_back(values_of(track, row));
      all.insert(all.end(), columns.back().begin(), columns.back().end());
      if (row.capped) all.push_back(track.max_batch_size);
    }
    const render::AxisScale scale(render::AxisScale::Kind::kLinearFromZero, all);
    const double high = scale.ticks().back();
    append("<text class=\"tick\" x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>", kLeft - 5, top + 9,
           render::format_tick(high));
    append("<text class=\"tick\" x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">0</text>", kLeft - 5, top + kRowHeight);
    append("<text class=\"axis\" x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n", kLeft - 5,
           top + kRowHeight / 2 + 4, row.title);
    for (std::size_t i = 0; i < view_.tracks.size(); ++i) {
      const double left = column_left(i);
      draw_frame(left, top, column_width_, kRowHeight);
      const auto y_of = [&](double value) { return top + kRowHeight * (1 - scale.position(value)); };
      if (row.capped && view_.tracks[i].max_batch_size > 0) {
        const double y = y_of(view_.tracks[i].max_batch_size);
        append("<path class=\"cap\" d=\"M{:.1f} {:.1f}h{:.1f}\"/>", left, y, column_width_);
      }
      draw_track(view_.tracks[i], columns[i], i, left, y_of);
    }
  }

  template <class YOf>
  void draw_track(const analysis::WorkerTrack& track, const std::vector<double>& values, std::size_t number,
                  double left, const YOf& y_of) {
    if (values.empty()) return;
    append("<path class=\"track t{}\" d=\"", number);
    for (std::size_t i = 0; i < values.size(); ++i) {
      append("{}{:.1f} {:.1f}", i == 0 ? 'M' : 'L', x_in(left, column_width_, track.seconds[i]), y_of(values[i]));
    }
    append("\"/>\n");
  }

  void draw_turns() {
    const double width = kWidth - kLeft - kRight;
    std::vector<double> values = {view_.ttft_p95_ms};
    for (const analysis::TurnDot& dot : view_.dots) values.push_back(dot.ttft_ms);
    const render::AxisScale scale(render::AxisScale::Kind::kLogarithmic, values);
    const auto y_of = [&](double ms) { return kTurnsTop + kTurnsHeight * (1 - scale.position(ms)); };
    draw_frame(kLeft, kTurnsTop, width, kTurnsHeight);
    for (const double tick : scale.ticks()) {
      append("<text class=\"tick\" x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>", kLeft - 5, y_of(tick) + 3.5,
             render::format_tick(tick));
    }
    append(
        "<text class=\"axis\" text-anchor=\"middle\" transform=\"translate(13 {:.1f}) rotate(-90)\">TTFT, ms</text>\n",
        kTurnsTop + kTurnsHeight / 2);
    append("<path class=\"cap\" d=\"M{} {:.1f}h{:.1f}\"/>\n", kLeft, y_of(view_.ttft_p95_ms), width);
    for (const analysis::TurnDot& dot : view_.dots) draw_dot(dot, x_in(kLeft, width, dot.second), y_of(dot.ttft_ms));
    draw_seconds(width);
  }

  void draw_dot(const analysis::TurnDot& dot, double x, double y) {
    const std::string colour = dot.track < view_.tracks.size() ? fmt::format("t{}", dot.track) : "other";
    if (!dot.slow) {
      append("<circle class=\"{}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"1.6\"/>", colour, x, y);
      return;
    }
    append(
        "<circle class=\"slow {}\" cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.4\"><title>{} at {:.1f} s on "
        "{}</title></circle>\n",
        colour, x, y, render::format_ms(dot.ttft_ms), dot.second,
        dot.track < view_.tracks.size() ? render::escape_html(view_.tracks[dot.track].worker) : "a worker not drawn");
  }

  void draw_seconds(double width) {
    const render::AxisScale scale(render::AxisScale::Kind::kLinearFromZero, {last_second_});
    for (const double tick : scale.ticks()) {
      if (tick > last_second_) break;
      append("<text class=\"tick\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text>",
             x_in(kLeft, width, tick), kTurnsTop + kTurnsHeight + 14, render::format_tick(tick));
    }
    append(
        "<text class=\"axis\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">seconds since the start of the level "
        "(shaded: outside the measuring window)</text>\n",
        kLeft + width / 2, kTurnsTop + kTurnsHeight + 29);
  }

  const analysis::TimelineView& view_;
  std::string& out_;
  double column_width_ = 0;
  double last_second_ = 1;
};

}  // namespace

std::string render_timeline(const analysis::TimelineView& view, const std::string& title) {
  if (view.empty()) return {};
  std::string out = "<figure class=\"plot timeline\">\n<figcaption>" + render::escape_html(title) + "</figcaption>\n";
  if (view.workers > view.tracks.size()) {
    out += fmt::format("<p>The {} workers with the most slow turns, of {}.</p>\n", view.tracks.size(), view.workers);
  }
  TimelineDrawing(view, out).draw(title);
  out += "</figure>\n";
  return out;
}

}  // namespace kvist::report

#include "kvist/dashboard/time_series.h"

#include <algorithm>
#include <limits>

#include "kvist/base/check.h"

namespace kvist::dashboard {
namespace {

constexpr float kUnknown = std::numeric_limits<float>::quiet_NaN();

}  // namespace

TimeSeries::TimeSeries(std::size_t figures) : figures_(figures) {
  for (std::size_t i = 0; i < rings_.size(); ++i) {
    Ring& ring = rings_[i];
    ring.resolution = kResolutions[i];
    const auto steps = static_cast<std::size_t>(ring.resolution.length_s / ring.resolution.step_s);
    ring.at.assign(steps, kNone);
    ring.values.assign(steps * figures, kUnknown);
    ring.means.assign(figures, {});
  }
}

void TimeSeries::add(std::int64_t second, std::span<const std::optional<double>> figures) {
  KVIST_CHECK(figures.size() == figures_, "a value for each figure");
  if (second < 0 || (last_ && second <= *last_)) return;
  for (Ring& ring : rings_) add_to(ring, second, figures);
  last_ = second;
}

void TimeSeries::add_to(Ring& ring, std::int64_t second, std::span<const std::optional<double>> figures) {
  const std::int64_t step = second / ring.resolution.step_s;
  const std::size_t place = static_cast<std::size_t>(step) % ring.at.size();
  const std::int64_t begin = step * ring.resolution.step_s;
  if (ring.at[place] != begin) {
    ring.at[place] = begin;
    std::ranges::fill(ring.means, Mean{});
  }
  for (std::size_t i = 0; i < figures_; ++i) {
    Mean& mean = ring.means[i];
    if (figures[i]) {
      mean.sum += *figures[i];
      ++mean.count;
    }
    ring.values[(place * figures_) + i] = mean.count > 0 ? static_cast<float>(mean.sum / mean.count) : kUnknown;
  }
}

const TimeSeries::Ring& TimeSeries::ring_for(std::int64_t window_s, std::size_t most) const {
  for (const Ring& ring : rings_) {
    const std::int64_t steps = (window_s + ring.resolution.step_s - 1) / ring.resolution.step_s;
    if (window_s <= ring.resolution.length_s && steps <= static_cast<std::int64_t>(most)) return ring;
  }
  return rings_.back();
}

SeriesView TimeSeries::read(std::int64_t window_s, std::size_t most) const {
  SeriesView view;
  view.columns.resize(figures_);
  const Ring& ring = ring_for(window_s, most);
  view.step_s = ring.resolution.step_s;
  if (!last_) return view;
  const auto steps_wanted =
      std::min<std::int64_t>((window_s + view.step_s - 1) / view.step_s, static_cast<std::int64_t>(most));
  const std::int64_t last_step = *last_ / view.step_s;
  const auto kept = static_cast<std::int64_t>(ring.at.size());
  for (std::int64_t step = std::max<std::int64_t>(0, last_step - std::min(steps_wanted, kept) + 1); step <= last_step;
       ++step) {
    const std::size_t place = static_cast<std::size_t>(step) % ring.at.size();
    const bool is_there = ring.at[place] == step * view.step_s;
    if (!is_there && view.at_s.empty()) continue;  // before the first
    view.at_s.push_back(step * view.step_s);
    for (std::size_t i = 0; i < figures_; ++i)
      view.columns[i].push_back(is_there ? ring.values[(place * figures_) + i] : kUnknown);
  }
  return view;
}

std::size_t TimeSeries::bytes() const {
  std::size_t bytes = 0;
  for (const Ring& ring : rings_) {
    bytes += (ring.at.capacity() * sizeof(std::int64_t)) + (ring.values.capacity() * sizeof(float)) +
             (ring.means.capacity() * sizeof(Mean));
  }
  return bytes;
}

}  // namespace kvist::dashboard

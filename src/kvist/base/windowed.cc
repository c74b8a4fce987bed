#include "kvist/base/windowed.h"

#include <algorithm>
#include <vector>

#include "kvist/base/statistics.h"

namespace kvist {

void WindowedSummary::observe(TimePoint now, double value) {
  while (!samples_.empty() && samples_.front().at <= now - window_) samples_.pop_front();
  samples_.push_back({now, value});
  ++total_count_;
  total_sum_ += value;
}

std::optional<double> WindowedSummary::quantile(TimePoint now, double q, Duration within) const {
  std::vector<double> values;
  values.reserve(samples_.size());
  for (const Sample& s : samples_) {
    if (s.at > now - within && s.at <= now) values.push_back(s.value);
  }
  if (values.empty()) return std::nullopt;
  std::sort(values.begin(), values.end());
  return quantile_of_sorted(values, q);
}

std::size_t WindowedSummary::count(TimePoint now) const {
  return static_cast<std::size_t>(std::count_if(samples_.begin(), samples_.end(),
                                                [&](const Sample& s) { return s.at > now - window_ && s.at <= now; }));
}

void WindowedRate::add(TimePoint now, double amount) {
  while (!increments_.empty() && increments_.front().at <= now - window_) increments_.pop_front();
  // Increments within one millisecond share an entry, because otherwise a token counter would need one per token.
  if (!increments_.empty() && now - increments_.back().at < std::chrono::milliseconds(1)) {
    increments_.back().amount += amount;
  } else {
    increments_.push_back({now, amount});
  }
  total_ += amount;
}

double WindowedRate::per_second(TimePoint now, Duration within) const {
  double sum = 0;
  for (const Increment& i : increments_) {
    if (i.at > now - within && i.at <= now) sum += i.amount;
  }
  return sum / to_seconds(within);
}

}  // namespace kvist

#include "kvist/base/windowed_histogram.h"

#include <algorithm>
#include <cmath>

namespace kvist {
namespace {

constexpr double kFirstBoundMs = 1e-3;
const double kLogGrowth = std::log(1.01);

}  // namespace

WindowedHistogram::WindowedHistogram(Duration window)
    : slice_length_(std::max(window / kSlices, Duration(std::chrono::milliseconds(1)))) {}

void WindowedHistogram::observe(TimePoint now, double ms) {
  const std::int64_t number = number_at(now);
  Slice& slice = slices_[static_cast<std::size_t>(number) % slices_.size()];
  if (slice.number != number) {
    slice.number = number;
    slice.count = 0;
    slice.buckets.assign(kBuckets, 0);
  }
  const double steps = ms > kFirstBoundMs ? std::ceil(std::log(ms / kFirstBoundMs) / kLogGrowth - 1e-9) : 0;
  ++slice.buckets[std::min(static_cast<std::size_t>(steps), kBuckets - 1)];
  ++slice.count;
}

std::optional<double> WindowedHistogram::quantile(TimePoint now, double q, Duration within) const {
  const std::int64_t slices = (within + slice_length_ - Duration(1)) / slice_length_;
  return quantile_of(now, q, std::min<std::int64_t>(slices, kSlices));
}

std::optional<double> WindowedHistogram::quantile_of(TimePoint now, double q, std::int64_t slices) const {
  const std::int64_t last = number_at(now);
  std::vector<const Slice*> within;
  std::uint64_t count = 0;
  for (const Slice& slice : slices_) {
    if (slice.count == 0 || slice.number > last || slice.number < last - slices) continue;
    within.push_back(&slice);
    count += slice.count;
  }
  if (count == 0) return std::nullopt;
  const double rank = std::max(1.0, q * static_cast<double>(count));
  std::uint64_t seen = 0;
  for (std::size_t bucket = 0; bucket < kBuckets; ++bucket) {
    for (const Slice* slice : within) seen += slice->buckets[bucket];
    if (static_cast<double>(seen) >= rank) return kFirstBoundMs * std::exp(kLogGrowth * static_cast<double>(bucket));
  }
  return kFirstBoundMs * std::exp(kLogGrowth * static_cast<double>(kBuckets - 1));
}

}  // namespace kvist

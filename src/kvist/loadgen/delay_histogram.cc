#include "kvist/loadgen/delay_histogram.h"

#include <algorithm>
#include <cmath>

namespace kvist::loadgen {
namespace {

constexpr double kFirstBoundNs = 1000;
constexpr double kGrowth = 1.05;

}  // namespace

void DelayHistogram::record(Duration delay, std::uint64_t times) {
  if (times == 0) return;
  const double ns = std::max(static_cast<double>(delay.count()), kFirstBoundNs);
  // Half a nanosecond less: a bucket's own bound, which is rounded to a whole one, is in that bucket.
  const double steps = std::log((ns - 0.5) / kFirstBoundNs) / std::log(kGrowth);
  const auto bucket = static_cast<std::size_t>(std::max(0.0, std::ceil(steps)));
  counts_[std::min(bucket, kBuckets - 1)] += times;
  count_ += times;
  max_ = std::max(max_, delay);
}

Duration DelayHistogram::bound(std::size_t bucket) const {
  if (bucket + 1 == kBuckets) return max_;
  const double bound_ns = kFirstBoundNs * std::pow(kGrowth, static_cast<double>(bucket));
  return std::min(max_, from_seconds(bound_ns * 1e-9));
}

Duration DelayHistogram::quantile(double q) const {
  if (count_ == 0) return {};
  const double rank = q * static_cast<double>(count_);
  std::uint64_t seen = 0;
  for (std::size_t bucket = 0; bucket < kBuckets; ++bucket) {
    seen += counts_[bucket];
    if (seen > 0 && static_cast<double>(seen) >= rank) return bound(bucket);
  }
  return max_;
}

std::vector<DelayHistogram::Bucket> DelayHistogram::buckets() const {
  std::vector<Bucket> all;
  for (std::size_t bucket = 0; bucket < kBuckets; ++bucket) {
    if (counts_[bucket] > 0) all.push_back({.at_most = bound(bucket), .count = counts_[bucket]});
  }
  return all;
}

}  // namespace kvist::loadgen

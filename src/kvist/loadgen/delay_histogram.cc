#include "kvist/loadgen/delay_histogram.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace kvist::loadgen {
namespace {

constexpr double kFirstBoundNs = 1000;
constexpr double kGrowth = 1.05;

}  // namespace

void DelayHistogram::record(Duration delay) {
  const double ns = std::max(static_cast<double>(delay.count()), kFirstBoundNs);
  const auto bucket = static_cast<std::size_t>(std::ceil(std::log(ns / kFirstBoundNs) / std::log(kGrowth)));
  ++counts_[std::min(bucket, kBuckets - 1)];
  ++count_;
  max_ = std::max(max_, delay);
}

Duration DelayHistogram::quantile(double q) const {
  if (count_ == 0) return {};
  const double rank = q * static_cast<double>(count_);
  std::uint64_t seen = 0;
  for (std::size_t bucket = 0; bucket < kBuckets - 1; ++bucket) {
    seen += counts_[bucket];
    if (seen > 0 && static_cast<double>(seen) >= rank) {
      const double bound_ns = kFirstBoundNs * std::pow(kGrowth, static_cast<double>(bucket));
      return std::min(max_, from_seconds(bound_ns * 1e-9));
    }
  }
  return max_;
}

}  // namespace kvist::loadgen

#include "kvist/planning/trace_limit.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace kvist::planning {
namespace {

/// From the first request to one mean gap after the last, which is when another would have come.
Duration length_of(const std::vector<Duration>& instants) {
  if (instants.empty()) return Duration(0);
  const auto [first, last] = std::ranges::minmax(instants);
  const auto gaps = static_cast<Duration::rep>(std::max<std::size_t>(instants.size() - 1, 1));
  return last - first + (last - first) / gaps;
}

std::vector<Duration> instants_of(const workload::LoadInput& input) {
  std::vector<Duration> instants;
  if (input.trace) {
    for (const workload::TraceRequest& request : input.trace->requests) instants.push_back(request.at);
  } else if (input.recorded) {
    for (const workload::RecordedTurn& turn : input.recorded->turns) instants.push_back(turn.sent);
    instants.push_back(Duration(0));  // a recorded level goes on from its own start
  }
  return instants;
}

}  // namespace

std::optional<TraceLimit> trace_limit(const spec::SweepSpec& sweep, const workload::LoadInput& input) {
  const spec::TraceSpec& trace = sweep.workload.trace;
  if (trace.file.empty() || trace.loop != spec::TraceLoop::kOpen) return std::nullopt;
  TraceLimit limit{.lasts = from_seconds(to_seconds(length_of(instants_of(input))) / trace.speed),
                   .needs = sweep.method.warmup + sweep.method.snapshots * sweep.method.snapshot_interval};
  // A little more than the quotient, so that a trace of just the right length is not lost to rounding.
  const double level = std::floor(100 * to_seconds(limit.lasts) / to_seconds(limit.needs) * (1 + 1e-9));
  limit.level = static_cast<std::uint32_t>(std::min<double>(level, std::numeric_limits<std::uint32_t>::max()));
  return limit;
}

}  // namespace kvist::planning

#include "kvist/routing/wait_or_commit.h"

#include <algorithm>
#include <limits>
#include <vector>

namespace kvist::routing {
namespace {

/// A worker's slots as they free for requests that wait elsewhere.
struct Source {
  double from_ms = 0;  // its own queue is served until then
  double rate = 0;     // slots per millisecond
};

double pooled_wait_ms(std::vector<Source>& sources, double slots) {
  std::ranges::sort(sources, {}, &Source::from_ms);
  double rate = 0;
  double offset = 0;  // sum of rate x from over those that serve: slots(t) = rate t - offset
  for (std::size_t i = 0; i < sources.size(); ++i) {
    rate += sources[i].rate;
    offset += sources[i].rate * sources[i].from_ms;
    const double at = (slots + offset) / rate;
    if (i + 1 == sources.size() || at <= sources[i + 1].from_ms) return at;
  }
  return std::numeric_limits<double>::infinity();
}

}  // namespace

WaitOrCommit wait_or_commit(std::span<const Candidate> candidates, std::size_t chosen, std::size_t ahead,
                            const WaitOptions& options) {
  WaitOrCommit result{.commit_ms = candidates[chosen].forecast.ttft_ms,
                      .wait_ms = std::numeric_limits<double>::infinity()};
  std::vector<Source> sources;
  sources.reserve(candidates.size());
  double after_slot_ms = 0;
  for (const Candidate& candidate : candidates) {
    const Forecast& forecast = candidate.forecast;
    const std::uint32_t slots = candidate.limits.max_batch_size;
    if (forecast.has_slot || slots == 0 || candidate.load.requests < slots || forecast.slot_wait_ms <= 0) return result;
    const double ends = candidate.load.requests + 1.0 - slots;
    const double rate = ends / forecast.slot_wait_ms;
    sources.push_back({.from_ms = (ends - 1) / rate, .rate = rate});
    after_slot_ms += (forecast.ttft_ms - forecast.slot_wait_ms) / static_cast<double>(candidates.size());
  }
  result.wait_ms = pooled_wait_ms(sources, static_cast<double>(ahead) + 1) + options.hand_over_ms + after_slot_ms;
  result.wait = result.wait_ms < result.commit_ms * (1 - options.margin);
  return result;
}

}  // namespace kvist::routing

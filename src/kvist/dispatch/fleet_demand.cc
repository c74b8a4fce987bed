#include "kvist/dispatch/fleet_demand.h"

#include <algorithm>
#include <cmath>

namespace kvist::dispatch {
namespace {

struct InUse {
  double slots = 0;  // in workers, as is the next
  double memory = 0;
  double share = 0;  // of the scarcer of the two
};

double share_of(double used, double all) {
  return all > 0 ? std::min(1.0, used / all) : 0;  // 0: not known
}

InUse in_use(const FleetDemand::State& state) {
  InUse use;
  double available = 0;
  for (std::uint32_t i = 0; i < state.fleet.size(); ++i) {
    if (!state.fleet[i].available) continue;
    const routing::EngineLimits limits = routing::in_blocks_of(state.block_size, state.fleet[i].limits);
    const routing::WorkerLoad& load = state.loads.load(WorkerId(i));
    const double blocks = static_cast<double>(load.prompt_blocks) +
                          static_cast<double>(load.output_tokens) / static_cast<double>(state.block_size);
    ++available;
    use.slots += share_of(load.requests, limits.max_batch_size);
    use.memory += state.has_no_room(WorkerId(i)) ? 1 : share_of(blocks, limits.kv_blocks);
  }
  if (available > 0) use.share = std::max(use.slots, use.memory) / available;
  return use;
}

}  // namespace

void FleetDemand::sample(const State& state, TimePoint now) {
  const Duration since = sampled_ ? now - *sampled_ : Duration::zero();
  if (sampled_ && since <= Duration::zero()) return;
  const bool any = std::ranges::any_of(state.fleet, &routing::WorkerView::available);
  if (any && sampled_) {
    const double seconds = to_seconds(since);
    const double share = 1 - std::exp(-seconds / to_seconds(spec_.window));
    const InUse use = in_use(state);
    slots_.add(use.slots, share);
    memory_.add(use.memory, share);
    saturated_.add(use.share, share);
    prefill_.add((state.routed_prefill_ms - routed_prefill_ms_) / 1e3 / seconds, share);
    coming_.add(static_cast<double>(came_) / seconds, share);
    refusing_.add(static_cast<double>(refused_) / seconds, share);
    ending_.add(static_cast<double>(ended_) / seconds, share);
    observed_ += since;
  }
  sampled_ = now;
  routed_prefill_ms_ = state.routed_prefill_ms;
  came_ = refused_ = ended_ = 0;
}

FleetDemand::Demand FleetDemand::demand() const {
  Demand demand{.slots = slots_.value(), .memory = memory_.value(), .prefill = prefill_.value()};
  const double ended = ending_.value();
  const bool overloaded = saturated_.value() >= kSaturated || refusing_.value() > 0.01 * coming_.value();
  if (overloaded && coming_.value() > ended)
    demand.pressure = ended > 0 ? std::min(kMostPressure, coming_.value() / ended) : kMostPressure;
  return demand;
}

std::optional<std::uint32_t> FleetDemand::wanted() const {
  if (observed_ < spec_.window) return std::nullopt;
  const Demand demand = this->demand();
  const double workers = std::max({demand.slots, demand.memory, demand.prefill}) * demand.pressure / spec_.utilisation;
  constexpr double kRounding = 1e-6;
  return static_cast<std::uint32_t>(std::max(1.0, std::ceil(workers - kRounding)));
}

}  // namespace kvist::dispatch

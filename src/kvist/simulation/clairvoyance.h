// What mode clairvoyant knows: the state of every simulated worker, rolled forward.
#pragma once

#include <span>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/engine/timed/roll_forward.h"
#include "kvist/routing/forecast_source.h"
#include "kvist/simulation/network.h"
#include "kvist/simulation/simulated_worker.h"
#include "kvist/spec/deployment.h"
#include "kvist/workload/turn_source.h"

namespace kvist::simulation {

/// Forecasts for the request that is about to be routed, from the true state of the workers, of the network between,
/// and of the answers that are still to come. It does not know which requests will come later. So the prefixes that
/// will be asked for again (Forecast::displaced_ms) stay as the router forecasts them, and so does scarcity, which is a
/// rule and not a fact. Threads: the level's.
class Clairvoyance final : public routing::ForecastSource {
 public:
  /// Requires: workers (which may be added later, in the order of the specs) and network outlive this object.
  Clairvoyance(std::vector<SimulatedWorker>& workers, const Network& network, const VirtualTime& time)
      : workers_(&workers), network_(&network), time_(&time) {}
  /// Errors: a step-time model that cannot be built.
  [[nodiscard]] Result<void> add_worker(const spec::WorkerSpec& worker);

  /// The turn whose request is routed next.
  void on_turn(const workload::StartTurn& turn);
  void amend(const routing::RouteQuery& query, std::span<routing::Candidate> candidates) override;

 private:
  void amend(const routing::RouteQuery& query, routing::Candidate& candidate);
  [[nodiscard]] std::uint32_t decoding() const;

  std::vector<SimulatedWorker>* workers_;
  const Network* network_;
  const VirtualTime* time_;
  std::vector<engine::RollForward> engines_;  // by WorkerId, as are the next two
  std::vector<std::uint32_t> block_sizes_;
  std::vector<double> slowness_;  // full prefill steps, in nanoseconds
  double mean_slowness_ = 0;
  engine::Request request_;
  engine::DriverView view_;  // scratch memory, as is the next
  std::vector<engine::Incoming> incoming_;
};

}  // namespace kvist::simulation

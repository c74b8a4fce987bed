// What a second thread does of a simulation.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <queue>
#include <vector>

#include "kvist/base/id.h"
#include "kvist/base/time.h"
#include "kvist/simulation/gateway_group.h"
#include "kvist/simulation/lookahead.h"
#include "kvist/simulation/network.h"
#include "kvist/simulation/simulated_worker.h"
#include "kvist/simulation/threads/second_thread.h"
#include "kvist/simulation/virtual_time.h"

namespace kvist::simulation {

/// Has the next steps of engines, and the prompts of requests on their way, computed on a second thread while the
/// simulation's own handles what comes before them: engines as far ahead as it is certain that nothing else concerns
/// them (Lookahead). What comes out is the same, in the same order. Threads: one, the simulation's.
class WorkAhead final : public ScheduleObserver, private SecondThread::Work {
 public:
  /// Requires: the references, and all workers, are there as long as this object.
  WorkAhead(std::vector<SimulatedWorker>& workers, const GatewayGroup& gateways, Network& network);

  void on_scheduled(TimePoint at, const Event& event) override;
  /// An event has come and done all that it does.
  void on_handled(const Event& event) { lookahead_.on_handled(event); }
  /// Gives what is certain to the second thread. Requires: `now` does not go backwards.
  void order_certain(TimePoint now);
  /// The worker is left alone, and its timer is on its way.
  [[nodiscard]] bool is_ahead(WorkerId worker) const { return thread_.is_ordered(worker.value()); }
  /// A timer or a request has come. Returns whether its work is done.
  bool take_back(const Event& event);
  /// So many steps and prompts were given to the second thread.
  [[nodiscard]] std::uint64_t orders() const { return orders_; }
  /// See SecondThread::cpu_seconds().
  [[nodiscard]] double cpu_seconds() { return thread_.cpu_seconds(); }

 private:
  static constexpr std::uint32_t kPrompts = 64;  // at once
  struct Timer {
    TimePoint at;
    Event event;
    bool operator>(const Timer& other) const { return at > other.at; }
  };

  void compute(std::uint32_t item, TimePoint at) override;
  void order_prompt(TimePoint at, const Event& event);
  [[nodiscard]] std::uint32_t item_of_prompt(const Event& event) const;

  Lookahead lookahead_;
  std::vector<SimulatedWorker>* workers_;
  const GatewayGroup* gateways_;
  Network* network_;
  std::priority_queue<Timer, std::vector<Timer>, std::greater<>> timers_;  // not ordered yet
  std::uint64_t orders_ = 0;
  std::array<TurnRequest*, kPrompts> requests_{};  // of the orders
  SecondThread thread_;                            // items: workers, then requests
};

}  // namespace kvist::simulation

// How far ahead of the present an engine can be computed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <queue>
#include <vector>

#include "kvist/base/id.h"
#include "kvist/base/time.h"
#include "kvist/simulation/event.h"
#include "kvist/spec/simulation_spec.h"

namespace kvist::simulation {

/// Messages take time, so that for a while it is certain that nothing reaches an engine but what is on its way to it
/// already: the lookahead of conservative parallel simulation (Chandy and Misra, 1979). Until then an engine can be
/// computed without regard to anything else.
///
/// What reaches an engine comes from a gateway, one `worker_hop` before; what else happens to it, and who reads it, is
/// scheduled. A gateway sends it when something
/// reaches itself: a request, a refusal, a deadline; these events are known one by one. A step's tokens make it send
/// something only while it holds requests; otherwise they go to the client, whose next request takes `client_hop` and
/// `gateway_time` more. Threads: one.
class Lookahead {
 public:
  Lookahead(const spec::SimulationSpec& spec, std::size_t workers);

  void on_scheduled(TimePoint at, const Event& event);
  /// An event has come and done all that it does.
  void on_handled(const Event& event);

  /// Nothing reads or changes an engine before this instant, except what is addressed to it by now. `gateway_holds`: a
  /// gateway holds requests. Requires: `now` does not go backwards.
  [[nodiscard]] TimePoint until(TimePoint now, bool gateway_holds);
  /// Something that is addressed to the engine is on its way.
  [[nodiscard]] bool awaits_input(WorkerId worker) const { return inputs_[worker.value()] > 0; }

 private:
  /// An event that leads to any engine sooner than the way from the client.
  struct Cause {
    TimePoint reaches;  // an engine, at the earliest
    TimePoint at;
    bool operator>(const Cause& other) const { return reaches > other.reaches; }
  };

  Duration worker_hop_;
  Duration refusal_;      // from a request at a worker to the next worker that is asked
  Duration client_gone_;  // from a client's deadline to the worker
  Duration from_client_;  // from the client's next request to a worker
  std::priority_queue<Cause, std::vector<Cause>, std::greater<>> causes_;
  std::vector<std::uint32_t> inputs_;  // by worker
};

}  // namespace kvist::simulation

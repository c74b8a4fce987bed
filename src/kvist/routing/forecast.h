// What the router expects if it gives a request to a worker.
#pragma once

#include <cstdint>

namespace kvist::routing {

/// Times are in milliseconds from the decision on.
struct Forecast {
  double step_ms = 0;           ///< one decode step of the worker without this request
  double step_with_ms = 0;      ///< one decode step with this request in the batch
  double slot_wait_ms = 0;      ///< until a batch slot and enough KV memory are free
  double queue_ms = 0;          ///< until the prompts before it are computed
  double prefill_ms = 0;        ///< of its own uncached tokens, the lost ones among them
  double fleet_prefill_ms = 0;  ///< the same on an average worker of the fleet
  double displaced_ms = 0;      ///< prefill of the reused prefixes that it displaces, on an average worker
  double held_up_ms = 0;        ///< by how much its prefill delays those who will come for the cache, summed over them
  double ttft_ms = 0;           ///< until its first token: wait, queue, prefill, and the time that every request needs
  double crowding_ms = 0;       ///< how much longer all other requests on the worker take per step, summed over them
  double answer_tokens = 0;     ///< of an average answer of the fleet
  double mean_requests = 0;     ///< in flight on the worker, over the last half minute
  double since_routed_ms = 0;   ///< since this gateway gave it a request, at most Forecaster::kRecentMs
  double error = 0;             ///< of the worker's earlier forecasts (PredictionError::relative); 0 while they are few
  double known = 1;  ///< 0 to 1: how much the worker's own recent observations count (FleetLatency::own_share())
  std::uint32_t lost_tokens = 0;  ///< cached ones that are evicted before it is admitted, as KV memory is short
  bool has_slot = true;           ///< a batch slot and KV memory are free now
  bool scarce = false;            ///< few slots or little KV memory would be left after this request
  /// How long it waits for others: for a slot, and until the prompts before it are computed.
  [[nodiscard]] double wait_ms() const { return slot_wait_ms + queue_ms; }
  friend bool operator==(const Forecast&, const Forecast&) = default;
};

}  // namespace kvist::routing

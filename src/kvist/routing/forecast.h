// What the router expects to happen if it gives a request to a worker.
#pragma once

namespace kvist::routing {

/// Expectations; times in milliseconds from the decision on.
struct Forecast {
  double step_ms = 0;           ///< one decode step of the worker as it is
  double step_with_ms = 0;      ///< one decode step with this request in the batch
  double slot_wait_ms = 0;      ///< until a batch slot and KV memory are free for it
  double queue_ms = 0;          ///< until the prompts before it are computed
  double prefill_ms = 0;        ///< of its own uncached tokens
  double fleet_prefill_ms = 0;  ///< the same on an average worker of the fleet
  double ttft_ms = 0;           ///< until its first token: the three above and what every request waits
  double crowding_ms = 0;       ///< by how much its presence delays all others on the worker, summed, per step
  double answer_tokens = 0;     ///< of an average answer, the fleet over
  double mean_requests = 0;     ///< in flight on the worker, over the last half minute
  double error = 0;             ///< of the worker's earlier forecasts (PredictionError::relative); 0 while they are few
  double known = 1;             ///< 0 to 1: how much of all this rests on what was seen of the worker of late
  bool has_slot = true;         ///< a batch slot and KV memory are free now
  bool scarce = false;          ///< they are, but hardly for another one
  friend bool operator==(const Forecast&, const Forecast&) = default;
};

}  // namespace kvist::routing

#include "kvist/gateway/worker_state.h"

namespace kvist::gateway {

std::string_view worker_state(const ModelParts& parts, WorkerId id) {
  const dispatch::Fleet::Worker& worker = parts.fleet.worker(id);
  if (!worker.open) return to_string(parts.places.place(id).state);
  if (!worker.serves_model) return "other_model";
  if (worker.health == dispatch::WorkerHealth::kUnhealthy) return "unhealthy";
  if (worker.stalled) return "stalled";
  if (worker.ejection == dispatch::Ejection::kOut) return "ejected";
  if (worker.ejection != dispatch::Ejection::kIn) return "trial";
  return to_string(worker.health);
}

}  // namespace kvist::gateway

#include "kvist/dispatch/fleet.h"

#include <algorithm>
#include <utility>

namespace kvist::dispatch {

std::string_view to_string(WorkerHealth health) {
  switch (health) {
    case WorkerHealth::kHealthy:
      return "healthy";
    case WorkerHealth::kSuspect:
      return "suspect";
    case WorkerHealth::kUnhealthy:
      return "unhealthy";
  }
  return "unhealthy";
}

Fleet::Fleet(std::vector<std::string> names, Options options) : options_(options), views_(names.size()) {
  workers_.reserve(names.size());
  for (std::string& name : names) workers_.push_back({.name = std::move(name)});
}

bool Fleet::on_success(WorkerId id, TimePoint now) {
  Worker& worker = workers_.at(id.value());
  worker.failures_in_a_row = 0;
  worker.last_problem.clear();
  return set_health(worker, WorkerHealth::kHealthy, now);
}

bool Fleet::on_failure(WorkerId id, std::string_view problem, TimePoint now) {
  Worker& worker = workers_.at(id.value());
  ++worker.failures;
  ++worker.failures_in_a_row;
  worker.last_problem = problem;
  if (worker.health == WorkerHealth::kUnhealthy) return false;
  const bool sure = worker.failures_in_a_row >= options_.failures_to_unhealthy;
  return set_health(worker, sure ? WorkerHealth::kUnhealthy : WorkerHealth::kSuspect, now);
}

bool Fleet::set_health(Worker& worker, WorkerHealth health, TimePoint now) {
  if (worker.health == health) return false;
  worker.health = health;
  worker.since = now;
  // With nobody healthy a suspect is better than no answer at all: it may have failed once only.
  const bool any_healthy = std::ranges::find(workers_, WorkerHealth::kHealthy, &Worker::health) != workers_.end();
  const WorkerHealth used = any_healthy ? WorkerHealth::kHealthy : WorkerHealth::kSuspect;
  for (std::size_t i = 0; i < workers_.size(); ++i) views_[i].available = workers_[i].health == used;
  return true;
}

void Fleet::set_events_exact(WorkerId worker, bool exact) {
  views_.at(worker.value()).events_exact = exact;
}

void Fleet::set_limits(WorkerId worker, const routing::EngineLimits& limits) {
  views_.at(worker.value()).limits = limits;
}

bool Fleet::any_available() const {
  return std::ranges::any_of(views_, &routing::WorkerView::available);
}

}  // namespace kvist::dispatch

#include "kvist/dispatch/fleet.h"

#include <algorithm>
#include <utility>

#include "kvist/base/check.h"

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

std::string_view to_string(LimitSource source) {
  switch (source) {
    case LimitSource::kUnknown:
      return "unknown";
    case LimitSource::kInferred:
      return "inferred";
    case LimitSource::kReported:
      return "reported";
    case LimitSource::kConfigured:
      return "configured";
  }
  return "unknown";
}

Fleet::Fleet(std::vector<std::string> names, Options options, std::size_t places)
    : options_(options), workers_(std::max(names.size(), places)), views_(workers_.size()) {
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    const bool vacant = i >= names.size();
    workers_[i].vacant = views_[i].vacant = vacant;
    if (vacant) continue;
    workers_[i].name = std::move(names[i]);
    workers_[i].occupants = 1;
  }
}

void Fleet::occupy(WorkerId id, std::string name) {
  Worker& worker = workers_.at(id.value());
  KVIST_CHECK(worker.vacant, "a worker takes a place that nobody has");
  worker = {.name = std::move(name), .occupants = worker.occupants + 1};
  views_[id.value()] = {};
  ++version_;
  update_availability();
}

void Fleet::vacate(WorkerId id) {
  Worker& worker = workers_.at(id.value());
  worker = {.name = std::move(worker.name), .vacant = true, .occupants = worker.occupants};
  views_[id.value()] = {};
  views_[id.value()].vacant = true;
  ++version_;
  update_availability();
}

void Fleet::set_open(WorkerId id, bool open) {
  Worker& worker = workers_.at(id.value());
  if (worker.open == open) return;
  worker.open = open;
  update_availability();
}

void Fleet::retire(WorkerId id, TimePoint now) {
  Worker& worker = workers_.at(id.value());
  worker.open = false;
  worker.retired = true;
  worker.last_problem = "removed";
  // Even if the worker was not healthy before: retries of the requests at it cost nothing (Dispatcher::is_free()).
  worker.health = WorkerHealth::kUnhealthy;
  worker.found = worker.since = now;
  update_availability();
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
  worker.last_problem = worker.last_failure = problem;
  if (worker.health == WorkerHealth::kUnhealthy) return false;
  const bool sure = worker.failures_in_a_row >= options_.failures_to_unhealthy;
  return set_health(worker, sure ? WorkerHealth::kUnhealthy : WorkerHealth::kSuspect, now);
}

bool Fleet::on_server_error(WorkerId id, std::string_view problem, TimePoint now) {
  Worker& worker = workers_.at(id.value());
  ++worker.failures;
  worker.last_problem = worker.last_failure = problem;
  return worker.health == WorkerHealth::kHealthy && set_health(worker, WorkerHealth::kSuspect, now);
}

bool Fleet::set_health(Worker& worker, WorkerHealth health, TimePoint now) {
  if (worker.health == health) return false;
  if (worker.health == WorkerHealth::kHealthy) worker.found = now;
  worker.health = health;
  worker.since = now;
  ++worker.changes;
  update_availability();
  return true;
}

// While no worker is healthy, suspect ones are used, because they may have failed only once. An ejected worker at least
// answers. Stalled workers are the last resort.
std::uint8_t Fleet::group_of(const Worker& worker) {
  if (worker.vacant || !worker.open || !worker.serves_model || worker.health == WorkerHealth::kUnhealthy)
    return routing::WorkerView::kOutOfUse;
  const bool is_ejected = worker.ejection == Ejection::kOut || worker.ejection == Ejection::kProbing;
  return static_cast<std::uint8_t>((worker.stalled ? 4 : 0) + (is_ejected ? 2 : 0) +
                                   (worker.health == WorkerHealth::kSuspect ? 1 : 0));
}

void Fleet::update_availability() {
  std::uint8_t best = routing::WorkerView::kOutOfUse;
  for (std::size_t i = 0; i < workers_.size(); ++i) {
    views_[i].group = group_of(workers_[i]);
    best = std::min(best, views_[i].group);
  }
  for (routing::WorkerView& view : views_)
    view.available = view.group == best && best != routing::WorkerView::kOutOfUse;
  ++version_;
}

bool Fleet::set_stalled(WorkerId id, bool stalled, TimePoint now) {
  Worker& worker = workers_.at(id.value());
  if (worker.stalled == stalled) return false;
  worker.stalled = stalled;
  if (stalled) {
    ++worker.stalls;
    worker.found = now;
  }
  update_availability();
  return true;
}

void Fleet::set_ejection(WorkerId id, Ejection ejection) {
  Worker& worker = workers_.at(id.value());
  if (worker.ejection == ejection) return;
  worker.ejection = ejection;
  update_availability();
}

void Fleet::set_model(WorkerId id, bool serves_model, std::uint32_t max_model_len) {
  change(id, &routing::WorkerView::max_model_len, max_model_len);
  Worker& worker = workers_.at(id.value());
  if (worker.serves_model == serves_model) return;
  worker.serves_model = serves_model;
  update_availability();
}

OutlierWatch::Usable Fleet::usable() const {
  OutlierWatch::Usable usable;
  for (const Worker& worker : workers_) {
    if (worker.vacant || !worker.open || worker.health == WorkerHealth::kUnhealthy || worker.stalled ||
        !worker.serves_model)
      continue;
    ++usable.workers;
    if (worker.ejection != Ejection::kIn) ++usable.ejected;
  }
  return usable;
}

void Fleet::set_adapters(WorkerId worker, std::vector<std::string> adapters) {
  change(worker, &routing::WorkerView::adapters, std::move(adapters));
}

void Fleet::set_reading(WorkerId worker, std::uint8_t reading) {
  change(worker, &routing::WorkerView::reading, reading);
}

void Fleet::set_events_exact(WorkerId worker, bool exact) {
  change(worker, &routing::WorkerView::events_exact, exact);
}

void Fleet::set_limits(WorkerId worker, const routing::EngineLimits& limits) {
  workers_.at(worker.value()).reported = limits;
  update_limits(worker);
}

void Fleet::configure_limits(WorkerId worker, const routing::EngineLimits& limits) {
  workers_.at(worker.value()).configured = limits;
  update_limits(worker);
}

void Fleet::on_load_report(WorkerId worker, double running, double waiting) {
  workers_.at(worker.value()).inference.on_report(running, waiting);
  update_limits(worker);
}

void Fleet::on_first_token(WorkerId worker, std::uint32_t decoding, bool late) {
  workers_.at(worker.value()).inference.on_first_token(decoding, late);
  update_limits(worker);
}

void Fleet::on_restarted(WorkerId worker) {
  workers_.at(worker.value()).inference.restart();
  update_limits(worker);
}

void Fleet::update_limits(WorkerId id) {
  const Worker& worker = workers_[id.value()];
  const auto first_known = [](auto... values) {
    std::uint32_t known = 0;
    ((known = known != 0 ? known : values), ...);
    return known;
  };
  const routing::EngineLimits limits = {
      .block_size = first_known(worker.configured.block_size, worker.reported.block_size),
      .kv_blocks = first_known(worker.configured.kv_blocks, worker.reported.kv_blocks),
      .max_batch_size =
          first_known(worker.configured.max_batch_size, worker.reported.max_batch_size, worker.inference.batch_slots()),
      .max_num_tokens = first_known(worker.configured.max_num_tokens, worker.reported.max_num_tokens)};
  change(id, &routing::WorkerView::limits, limits);
}

LimitSource Fleet::batch_slots_source(WorkerId id) const {
  const Worker& worker = workers_.at(id.value());
  if (worker.configured.max_batch_size != 0) return LimitSource::kConfigured;
  if (worker.reported.max_batch_size != 0) return LimitSource::kReported;
  return worker.inference.batch_slots() != 0 ? LimitSource::kInferred : LimitSource::kUnknown;
}

bool Fleet::any_available() const {
  return std::ranges::any_of(views_, &routing::WorkerView::available);
}

}  // namespace kvist::dispatch

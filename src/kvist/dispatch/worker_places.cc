#include "kvist/dispatch/worker_places.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "kvist/base/check.h"

namespace kvist::dispatch {

std::string_view to_string(PlaceState state) {
  switch (state) {
    case PlaceState::kVacant:
      return "vacant";
    case PlaceState::kServing:
      return "serving";
    case PlaceState::kCordoned:
      return "cordoned";
    case PlaceState::kDraining:
      return "draining";
    case PlaceState::kLeaving:
      return "leaving";
  }
  return "vacant";
}

WorkerPlaces::WorkerPlaces(std::size_t places) : places_(places), tenants_(places) {
  for (std::uint32_t i = 0; i < places; ++i) vacant_.emplace_back(i);
}

Result<WorkerId> WorkerPlaces::add(const std::string& name, TimePoint now) {
  if (const std::optional<WorkerId> other = find(name)) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("name: there is a worker \"{}\" already; it is {}", name, to_string(place(*other).state)));
  }
  if (vacant_.empty()) {
    return fail(ErrorCode::kResourceExhausted,
                fmt::format("all {} places for workers are taken; max_workers is their number", places_.size()));
  }
  const WorkerId worker = vacant_.front();
  vacant_.erase(vacant_.begin());
  places_[worker.value()] = {.name = name};
  enter(worker, PlaceState::kServing, now);
  std::vector<Tenancy>& tenants = tenants_[worker.value()];
  if (tenants.size() >= kTenancies) tenants.erase(tenants.begin());
  tenants.push_back({.from = now, .name = name});
  changed_ = now;
  return worker;
}

Result<WorkerId> WorkerPlaces::named(std::string_view name) const {
  if (const std::optional<WorkerId> worker = find(name)) return *worker;
  return fail(ErrorCode::kNotFound, fmt::format("name: there is no worker \"{}\"", name));
}

Result<WorkerId> WorkerPlaces::cordon(std::string_view name, TimePoint now) {
  KVIST_TRY(const WorkerId worker, named(name));
  const PlaceState state = place(worker).state;
  if (state == PlaceState::kDraining || state == PlaceState::kLeaving) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("name: \"{}\" is {}", name, to_string(state)));
  }
  if (state == PlaceState::kServing) enter(worker, PlaceState::kCordoned, now);
  return worker;
}

Result<WorkerId> WorkerPlaces::uncordon(std::string_view name, TimePoint now) {
  KVIST_TRY(const WorkerId worker, named(name));
  if (place(worker).state == PlaceState::kLeaving)
    return fail(ErrorCode::kInvalidArgument, fmt::format("name: \"{}\" is leaving", name));
  if (place(worker).state != PlaceState::kServing) enter(worker, PlaceState::kServing, now);
  return worker;
}

Result<WorkerId> WorkerPlaces::drain(std::string_view name, TimePoint deadline, TimePoint now) {
  KVIST_TRY(const WorkerId worker, named(name));
  if (place(worker).state == PlaceState::kLeaving)
    return fail(ErrorCode::kInvalidArgument, fmt::format("name: \"{}\" is leaving", name));
  if (place(worker).state != PlaceState::kDraining) enter(worker, PlaceState::kDraining, now);
  places_[worker.value()].deadline = deadline;
  return worker;
}

Result<WorkerId> WorkerPlaces::remove(std::string_view name, TimePoint now) {
  KVIST_TRY(const WorkerId worker, named(name));
  if (place(worker).state != PlaceState::kLeaving) enter(worker, PlaceState::kLeaving, now);
  return worker;
}

WorkerPlaces::Changes WorkerPlaces::poll(const std::function<bool(WorkerId)>& in_use, TimePoint now) {
  Changes changes;
  for (std::uint32_t i = 0; i < places_.size(); ++i) {
    const WorkerId worker(i);
    Place& place = places_[i];
    const bool ends = place.state == PlaceState::kDraining || place.state == PlaceState::kLeaving;
    if (!ends || place.being_cleared) continue;
    if (!in_use(worker)) {
      if (place.state == PlaceState::kDraining) {
        enter(worker, PlaceState::kLeaving, now);
        changes.leave.push_back(worker);
      }
      place.being_cleared = true;
      changes.clear.push_back(worker);
    } else if (place.state == PlaceState::kDraining && now >= place.deadline) {
      enter(worker, PlaceState::kLeaving, now);
      changes.leave.push_back(worker);
    }
  }
  return changes;
}

void WorkerPlaces::vacate(WorkerId worker, TimePoint now) {
  KVIST_CHECK(place(worker).being_cleared, "a place is left by a worker that nobody uses");
  places_[worker.value()] = {.name = std::move(places_[worker.value()].name)};
  enter(worker, PlaceState::kVacant, now);
  vacant_.push_back(worker);
}

std::optional<WorkerId> WorkerPlaces::find(std::string_view name) const {
  for (std::uint32_t i = 0; i < places_.size(); ++i)
    if (places_[i].state != PlaceState::kVacant && places_[i].name == name) return WorkerId(i);
  return std::nullopt;
}

std::string_view WorkerPlaces::name_at(WorkerId worker, TimePoint at) const {
  if (worker.value() >= tenants_.size()) return {};
  const std::vector<Tenancy>& tenants = tenants_[worker.value()];
  std::string_view name;
  for (const Tenancy& tenancy : tenants)
    if (tenancy.from <= at) name = tenancy.name;
  return name;
}

std::vector<std::string> WorkerPlaces::names_at(TimePoint at) const {
  std::vector<std::string> names;
  names.reserve(places_.size());
  for (std::uint32_t i = 0; i < places_.size(); ++i) names.emplace_back(name_at(WorkerId(i), at));
  return names;
}

void WorkerPlaces::enter(WorkerId worker, PlaceState state, TimePoint now) {
  places_[worker.value()].state = state;
  places_[worker.value()].since = now;
}

}  // namespace kvist::dispatch

// Which worker has which place of the fleet, and on what terms.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/id.h"
#include "kvist/base/time.h"

namespace kvist::dispatch {

/// The state of a place of the fleet.
enum class PlaceState : std::uint8_t {
  kVacant,
  kServing,
  kCordoned,  ///< its worker gets no new requests, until it is uncordoned
  kDraining,  ///< the same, and it is removed when its requests are over, or at a deadline
  kLeaving,   ///< its requests go elsewhere; when the last is gone, so is all that is known of the worker
};
/// "vacant", "serving", "cordoned", "draining", "leaving"
[[nodiscard]] std::string_view to_string(PlaceState state);

/// All that is kept by worker is kept by WorkerId, in tables that never grow: threads read them without a lock. So a
/// fleet that changes has a fixed number of places, and WorkerId is a place's number. A worker that is removed keeps
/// its place until nothing of it is left anywhere (quarantine): neither a request that could report about it, nor an
/// event of it on its way between threads. Then the place is vacant, and among vacant places the one that was left
/// first is taken first. The owner carries out what poll() says. Threads: one.
class WorkerPlaces {
 public:
  struct Place {
    PlaceState state = PlaceState::kVacant;
    std::string name = {};       ///< of its worker, or of the last one
    TimePoint deadline{};        ///< of kDraining
    bool being_cleared = false;  ///< kLeaving: poll() has said that nobody uses the worker any more
    TimePoint since{};           ///< of `state`
  };
  /// Who had a place from when to when, to find the names of the workers in what was recorded.
  struct Tenancy {
    TimePoint from{};
    std::string name;
  };

  explicit WorkerPlaces(std::size_t places);

  /// Gives the worker a place. Errors: kInvalidArgument if another one is called so, kResourceExhausted if no place is
  /// vacant.
  [[nodiscard]] Result<WorkerId> add(const std::string& name, TimePoint now);
  // The next calls name a worker. Errors: kNotFound if it has no place, kInvalidArgument if its state does not allow
  // the change.
  [[nodiscard]] Result<WorkerId> cordon(std::string_view name, TimePoint now);
  /// The worker gets requests again. Errors: also kInvalidArgument if it is neither cordoned nor draining.
  [[nodiscard]] Result<WorkerId> uncordon(std::string_view name, TimePoint now);
  /// No new requests; the worker is removed when its requests are over, and at `deadline` in any case.
  [[nodiscard]] Result<WorkerId> drain(std::string_view name, TimePoint deadline, TimePoint now);
  /// The worker is leaving. Its caller has to make its requests leave it now.
  [[nodiscard]] Result<WorkerId> remove(std::string_view name, TimePoint now);

  struct Changes {
    std::vector<WorkerId> leave;  ///< the deadline of their drain has passed: as if remove() had been called
    std::vector<WorkerId> clear;  ///< nobody uses these any more: what is known of them is to be forgotten
  };
  /// To be called several times a second. `in_use`: whether a request is, or was last, at the worker.
  [[nodiscard]] Changes poll(const std::function<bool(WorkerId)>& in_use, TimePoint now);
  /// Everything that was known of the worker is forgotten. Requires: poll() had it in `clear`.
  void vacate(WorkerId worker, TimePoint now);

  [[nodiscard]] std::size_t size() const { return places_.size(); }
  [[nodiscard]] std::size_t vacant() const { return vacant_.size(); }
  [[nodiscard]] const Place& place(WorkerId worker) const { return places_.at(worker.value()); }
  [[nodiscard]] std::optional<WorkerId> find(std::string_view name) const;
  /// Who had the place at that time; empty if nobody had, or too many have had it since.
  [[nodiscard]] std::string_view name_at(WorkerId worker, TimePoint at) const;
  /// name_at() of all places.
  [[nodiscard]] std::vector<std::string> names_at(TimePoint at) const;
  /// When a worker was last added: from then on all names are the same.
  [[nodiscard]] TimePoint changed() const { return changed_; }
  static constexpr std::size_t kTenancies = 8;  ///< remembered of a place

 private:
  [[nodiscard]] Result<WorkerId> named(std::string_view name) const;
  void enter(WorkerId worker, PlaceState state, TimePoint now);

  std::vector<Place> places_;                  // by WorkerId
  std::vector<std::vector<Tenancy>> tenants_;  // likewise; the oldest first
  std::vector<WorkerId> vacant_;               // in the order in which they are taken
  TimePoint changed_{};
};

}  // namespace kvist::dispatch

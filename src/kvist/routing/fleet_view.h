// The workers of the fleet as a decision sees them, and whether they are as they were.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kvist/routing/worker_view.h"

namespace kvist::routing {

/// A view of the fleet. The owner of a large fleet says with a version when something in it has changed, so that a
/// decision need not read every worker to find out. A value; valid as long as the workers are.
class FleetView {
 public:
  /// Nothing is known of changes: whoever uses it reads all workers.
  FleetView(std::span<const WorkerView> workers) : workers_(workers) {}
  FleetView(const std::vector<WorkerView>& workers) : workers_(workers) {}
  /// Requires: whenever one router sees the same version again, not 0, each worker is as it was.
  FleetView(std::span<const WorkerView> workers, std::uint64_t version) : workers_(workers), version_(version) {}

  [[nodiscard]] std::size_t size() const { return workers_.size(); }
  [[nodiscard]] const WorkerView& operator[](std::size_t worker) const { return workers_[worker]; }
  [[nodiscard]] auto begin() const { return workers_.begin(); }
  [[nodiscard]] auto end() const { return workers_.end(); }

  /// Whether the fleet is surely as it was when version() gave `seen`.
  [[nodiscard]] bool is_still(std::uint64_t seen) const { return version_ != 0 && version_ == seen; }
  [[nodiscard]] std::uint64_t version() const { return version_; }

 private:
  std::span<const WorkerView> workers_;
  std::uint64_t version_ = 0;
};

}  // namespace kvist::routing

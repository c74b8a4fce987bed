// The gateway's file, read again: which changes can be carried out while it runs.
#pragma once

#include <string>
#include <vector>

#include "kvist/spec/deployment.h"

namespace kvist::gateway {

/// How to come from one list of workers to another. Only what the two lists differ in is touched, so what
/// administration did to the fleet stays.
struct FleetPlan {
  std::vector<spec::UpstreamSpec> add;
  std::vector<std::string> drain;           ///< names
  std::vector<spec::UpstreamSpec> replace;  ///< drained, then added with these settings
  std::vector<spec::UpstreamSpec> limits;   ///< nothing but the limits differs

  [[nodiscard]] bool empty() const { return add.empty() && drain.empty() && replace.empty() && limits.empty(); }
};
[[nodiscard]] FleetPlan plan_of(const std::vector<spec::UpstreamSpec>& before,
                                const std::vector<spec::UpstreamSpec>& after);

/// How to come from one list of groups to another. A group whose kind of source differs is removed and added.
struct GroupPlan {
  std::vector<spec::WorkerGroupSpec> add;
  std::vector<std::string> remove;  ///< names
  /// With their new settings. Which of a group's workers stay is known when its source has answered.
  std::vector<spec::WorkerGroupSpec> replace;

  [[nodiscard]] bool empty() const { return add.empty() && remove.empty() && replace.empty(); }
};
[[nodiscard]] GroupPlan plan_of(const std::vector<spec::WorkerGroupSpec>& before,
                                const std::vector<spec::WorkerGroupSpec>& after);

/// The keys of the gateway's mapping whose values differ and that need a restart: all but the lists of workers and
/// models, models' further names, and the time to drain. For a model that is in both lists such a key is written as
/// "mode of NAME".
[[nodiscard]] std::vector<std::string> settings_that_differ(const spec::GatewaySpec& before,
                                                            const spec::GatewaySpec& after);

}  // namespace kvist::gateway

// Workers in clusters of Kubernetes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/gateway/fleet_changes.h"
#include "kvist/gateway/reloaded_file.h"
#include "kvist/kubernetes/list_watch.h"
#include "kvist/net/event_loop.h"
#include "kvist/spec/deployment.h"

namespace kvist::gateway {

enum class DiscoveryState : std::uint8_t {
  kStarting,  ///< nothing is known yet
  kSynced,    ///< the fleet is what the cluster says
  kStale,     ///< the fleet is what the cluster said last
};
inline constexpr DiscoveryState kDiscoveryStates[] = {DiscoveryState::kStarting, DiscoveryState::kSynced,
                                                      DiscoveryState::kStale};
/// "starting", "synced", "stale"
[[nodiscard]] std::string_view to_string(DiscoveryState state);

/// Where a group's workers come from, and how current that is.
struct DiscoveryReport {
  std::string group = {};
  std::string service = {};  ///< or the InferencePool
  DiscoveryState state = DiscoveryState::kStarting;
  std::optional<TimePoint> stale_since = {};
  std::string problem = {};  ///< of the last call to the API server; empty: none
  std::size_t workers = 0;
  std::uint64_t unreadable = 0;  ///< objects
  kubernetes::ListWatch::Counters calls = {};
};

/// Follows each group's Service or InferencePool (ClusterSource).
/// Endpoints that come are added to the fleet, those that are gone, unready or terminating are drained. While the API
/// server is gone the fleet stays what it was. Every gateway follows by itself; none leads. Threads: the loop's.
class KubernetesGroups {
 public:
  /// Takes the groups that name a Kubernetes source. Requires: the loop and the changes outlive this object.
  KubernetesGroups(net::EventLoop& loop, const std::vector<spec::WorkerGroupSpec>& groups, const std::string& model,
                   FleetChanges& changes);
  ~KubernetesGroups();
  KubernetesGroups(const KubernetesGroups&) = delete;
  KubernetesGroups& operator=(const KubernetesGroups&) = delete;

  void start();
  /// The groups of a changed file, as far as they name a Kubernetes source. The workers of one that is gone are
  /// drained. A changed one is followed anew; its workers stay what they are until the cluster has said which of them
  /// it has too. Requires: start() was called, and stop() was not.
  void carry_out(const GroupPlan& plan);
  /// Stops following; nothing changes afterwards.
  void stop();
  [[nodiscard]] std::vector<DiscoveryReport> reports() const;

 private:
  class Group;
  using Groups = std::vector<std::unique_ptr<Group>>;
  [[nodiscard]] Groups::iterator find(const std::string& name);
  [[nodiscard]] std::unique_ptr<Group> make(const spec::WorkerGroupSpec& group);

  net::EventLoop* loop_;
  const std::string model_;
  FleetChanges* changes_;
  Groups groups_;
};

}  // namespace kvist::gateway

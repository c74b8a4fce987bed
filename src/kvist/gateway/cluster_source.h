// How the workers of a group are followed within a cluster of Kubernetes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kvist/kubernetes/api_client.h"
#include "kvist/kubernetes/api_request.h"
#include "kvist/kubernetes/informer.h"
#include "kvist/kubernetes/worker_mapping.h"
#include "kvist/net/event_loop.h"
#include "kvist/spec/deployment.h"

namespace kvist::gateway {

/// Copies of the objects that say which workers there are. Threads: the loop's.
class ClusterSource {
 public:
  virtual ~ClusterSource() = default;

  /// Begins to follow. `on_event`: a copy has changed, or how current it is. Requires: it is not following; loop and
  /// client outlive it, or stop() is called before.
  virtual void start(net::EventLoop& loop, kubernetes::ApiClient& client, const std::string& name_space,
                     std::function<void()> on_event) = 0;
  virtual void stop() = 0;

  /// The copies that it needs now. With all of them whole, workers() is what the cluster says.
  [[nodiscard]] virtual std::vector<const kubernetes::InformerBase*> copies() const = 0;
  [[nodiscard]] virtual std::vector<kubernetes::Worker> workers() const = 0;
  /// Counts the changes of the copies.
  [[nodiscard]] virtual std::uint64_t changes() const = 0;
  /// The calls of copies that it does not need any more.
  [[nodiscard]] virtual kubernetes::ListWatch::Counters past_calls() const { return {}; }
  /// What is wrong with what the cluster says; empty: nothing is.
  [[nodiscard]] virtual std::string problem() const { return {}; }
};

/// Requires: the group is one of Kubernetes.
[[nodiscard]] std::unique_ptr<ClusterSource> make_cluster_source(const spec::WorkerGroupSpec& group,
                                                                 const std::string& model);

/// Which of the cluster's endpoints are workers of the model. Requires: the group is one of Kubernetes.
[[nodiscard]] kubernetes::WorkerSelection selection_of(const spec::WorkerGroupSpec& group, const std::string& model);
/// These workers as the gateway reaches them.
[[nodiscard]] std::vector<spec::UpstreamSpec> workers_of(const spec::WorkerGroupSpec& group,
                                                         const std::vector<kubernetes::Worker>& workers);
/// The Service, or the pool, as messages name it.
[[nodiscard]] const std::string& name_of(const spec::KubernetesSourceSpec& source);

// The collections that are followed. Requires for the first two: the source has a Service; for the others: a pool.
[[nodiscard]] kubernetes::Collection slices_of(const spec::KubernetesSourceSpec& source, const std::string& name_space);
[[nodiscard]] kubernetes::Collection pods_of(const spec::KubernetesSourceSpec& source, const std::string& name_space);
[[nodiscard]] kubernetes::Collection pool_of(const spec::KubernetesSourceSpec& source, const std::string& name_space);
/// With an empty selector, which stands for any, for questions about rights.
[[nodiscard]] kubernetes::Collection pods_of_pool(const std::string& selector, const std::string& name_space);

}  // namespace kvist::gateway

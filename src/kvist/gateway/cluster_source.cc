#include "kvist/gateway/cluster_source.h"

#include <fmt/format.h>

#include <utility>

#include "kvist/gateway/shared_parts.h"
#include "kvist/kubernetes/informer_driver.h"

namespace kvist::gateway {
namespace {

using kubernetes::InformerDriver;

/// The EndpointSlices of a Service, and its pods if the group wants what they say of themselves.
class ServiceSource final : public ClusterSource {
 public:
  ServiceSource(spec::KubernetesSourceSpec source, kubernetes::WorkerSelection selection)
      : source_(std::move(source)),
        selection_(std::move(selection)),
        slices_(kubernetes::read_endpoint_slice, random_seed()),
        pods_(kubernetes::read_pod_metadata, random_seed()) {}

  void start(net::EventLoop& loop, kubernetes::ApiClient& client, const std::string& name_space,
             std::function<void()> on_event) override {
    if (selection_.watches_pods) {
      follow_pods_ = std::make_unique<InformerDriver>(loop, client, pods_of(source_, name_space), pods_, on_event);
      follow_pods_->start();
    }
    follow_slices_ =
        std::make_unique<InformerDriver>(loop, client, slices_of(source_, name_space), slices_, std::move(on_event));
    follow_slices_->start();
  }
  void stop() override {
    follow_slices_.reset();
    follow_pods_.reset();
  }

  [[nodiscard]] std::vector<const kubernetes::InformerBase*> copies() const override {
    if (selection_.watches_pods) return {&slices_, &pods_};
    return {&slices_};
  }
  [[nodiscard]] std::vector<kubernetes::Worker> workers() const override {
    return kubernetes::workers_of(slices_.objects(), pods_.objects(), selection_);
  }
  [[nodiscard]] std::uint64_t changes() const override { return slices_.changes() + pods_.changes(); }

 private:
  const spec::KubernetesSourceSpec source_;
  const kubernetes::WorkerSelection selection_;
  kubernetes::Informer<kubernetes::EndpointSlice> slices_;
  kubernetes::Informer<kubernetes::PodMetadata> pods_;
  std::unique_ptr<InformerDriver> follow_slices_;
  std::unique_ptr<InformerDriver> follow_pods_;
};

/// An InferencePool, and the pods that its selector matches. When the selector changes, they are followed anew; until
/// they are known, the workers stay what they were.
class PoolSource final : public ClusterSource {
 public:
  PoolSource(spec::KubernetesSourceSpec source, kubernetes::WorkerSelection selection)
      : source_(std::move(source)),
        selection_(std::move(selection)),
        pools_(kubernetes::read_inference_pool, random_seed()) {}

  void start(net::EventLoop& loop, kubernetes::ApiClient& client, const std::string& name_space,
             std::function<void()> on_event) override {
    loop_ = &loop;
    client_ = &client;
    name_space_ = name_space;
    on_event_ = std::move(on_event);
    follow_pool_ = std::make_unique<InformerDriver>(loop, client, pool_of(source_, name_space), pools_, [this] {
      follow_what_it_selects();
      on_event_();
    });
    follow_pool_->start();
  }
  void stop() override {
    follow_pods_.reset();
    follow_pool_.reset();
  }

  [[nodiscard]] std::vector<const kubernetes::InformerBase*> copies() const override {
    if (pods_) return {&pools_, pods_.get()};
    return {&pools_};
  }
  [[nodiscard]] std::vector<kubernetes::Worker> workers() const override {
    if (!pods_) return {};
    return kubernetes::workers_of(pools_.objects().begin()->second, pods_->objects(), selection_);
  }
  [[nodiscard]] std::uint64_t changes() const override {
    return pools_.changes() + past_changes_ + (pods_ ? pods_->changes() : 0);
  }
  [[nodiscard]] kubernetes::ListWatch::Counters past_calls() const override { return past_calls_; }
  [[nodiscard]] std::string problem() const override {
    if (pods_ || !pools_.protocol().synced()) return {};
    return fmt::format("there is no InferencePool {} in {}", source_.inference_pool, name_space_);
  }

 private:
  void follow_what_it_selects() {
    if (!pools_.protocol().synced()) return;
    const auto& pools = pools_.objects();  // one at most, because only one name is asked for
    const std::string selector = pools.empty() ? std::string() : pools.begin()->second.label_selector();
    if (selector == selector_) return;
    selector_ = selector;
    follow_pods_.reset();
    if (pods_) {
      const kubernetes::ListWatch::Counters& calls = pods_->protocol().counters();
      past_calls_.lists += calls.lists;
      past_calls_.watches += calls.watches;
      past_calls_.expired += calls.expired;
      past_calls_.failures += calls.failures;
      past_changes_ += pods_->changes() + 1;  // what was said by it does not count any more
    }
    pods_.reset();
    if (selector.empty()) return;
    pods_ = std::make_unique<kubernetes::Informer<kubernetes::Pod>>(kubernetes::read_pod, random_seed());
    follow_pods_ =
        std::make_unique<InformerDriver>(*loop_, *client_, pods_of_pool(selector, name_space_), *pods_, on_event_);
    follow_pods_->start();
  }

  const spec::KubernetesSourceSpec source_;
  const kubernetes::WorkerSelection selection_;
  net::EventLoop* loop_ = nullptr;
  kubernetes::ApiClient* client_ = nullptr;
  std::string name_space_;
  std::function<void()> on_event_;
  kubernetes::Informer<kubernetes::InferencePool> pools_;
  std::string selector_;                                         // of the pool; empty: there is none
  std::unique_ptr<kubernetes::Informer<kubernetes::Pod>> pods_;  // that it selects; null: there is no pool
  std::uint64_t past_changes_ = 0;
  kubernetes::ListWatch::Counters past_calls_;
  std::unique_ptr<InformerDriver> follow_pool_;
  std::unique_ptr<InformerDriver> follow_pods_;
};

}  // namespace

std::unique_ptr<ClusterSource> make_cluster_source(const spec::WorkerGroupSpec& group, const std::string& model) {
  if (group.kubernetes->inference_pool.empty())
    return std::make_unique<ServiceSource>(*group.kubernetes, selection_of(group, model));
  return std::make_unique<PoolSource>(*group.kubernetes, selection_of(group, model));
}

kubernetes::WorkerSelection selection_of(const spec::WorkerGroupSpec& group, const std::string& model) {
  return {.group = group.name,
          .port_name = group.kubernetes->port_name,
          .port = group.port,
          .watches_pods = !group.kubernetes->pods.empty(),
          .model = model,
          .role = group.kubernetes->role,
          .kv_events_port = group.kv_events_port,
          .kv_replay_port = group.kv_replay_port};
}

std::vector<spec::UpstreamSpec> workers_of(const spec::WorkerGroupSpec& group,
                                           const std::vector<kubernetes::Worker>& workers) {
  std::vector<spec::UpstreamSpec> upstreams;
  upstreams.reserve(workers.size());
  for (const kubernetes::Worker& worker : workers) {
    const std::string host = worker.host.contains(':') ? fmt::format("[{}]", worker.host) : worker.host;
    const auto zmq = [&](std::uint16_t port) { return port == 0 ? "" : fmt::format("tcp://{}:{}", host, port); };
    upstreams.push_back({.name = worker.name,
                         .url = fmt::format("{}://{}:{}", group.https ? "https" : "http", host, worker.port),
                         .kv_events = zmq(worker.kv_events_port),
                         .kv_replay = zmq(worker.kv_replay_port),
                         .limits = group.limits,
                         .api_key_file = group.api_key_file,
                         .tls = group.tls});
  }
  return upstreams;
}

const std::string& name_of(const spec::KubernetesSourceSpec& source) {
  return source.service.empty() ? source.inference_pool : source.service;
}

kubernetes::Collection slices_of(const spec::KubernetesSourceSpec& source, const std::string& name_space) {
  return {.resource = kubernetes::kEndpointSlices,
          .name_space = name_space,
          .label_selector = "kubernetes.io/service-name=" + source.service};
}

kubernetes::Collection pods_of(const spec::KubernetesSourceSpec& source, const std::string& name_space) {
  return {
      .resource = kubernetes::kPods, .name_space = name_space, .label_selector = source.pods, .metadata_only = true};
}

kubernetes::Collection pool_of(const spec::KubernetesSourceSpec& source, const std::string& name_space) {
  return {.resource = kubernetes::kInferencePools, .name_space = name_space, .only = source.inference_pool};
}

kubernetes::Collection pods_of_pool(const std::string& selector, const std::string& name_space) {
  return {.resource = kubernetes::kPods, .name_space = name_space, .label_selector = selector};
}

}  // namespace kvist::gateway

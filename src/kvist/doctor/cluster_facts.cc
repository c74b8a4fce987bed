#include "kvist/doctor/cluster_facts.h"

#include <fmt/format.h>

#include <functional>
#include <string>
#include <utility>

#include "kvist/gateway/cluster_source.h"
#include "kvist/gateway/mode_from_environment.h"
#include "kvist/kubernetes/answers.h"
#include "kvist/kubernetes/blocking_client.h"
#include "kvist/kubernetes/informer.h"
#include "kvist/net/event_loop.h"

namespace kvist::doctor {
namespace {

using kubernetes::BlockingClient;
using kubernetes::Collection;

/// More workers are not examined one by one.
constexpr std::size_t kMostOfService = 64;

Result<std::string> call(const BlockingClient& client, net::HttpRequest request, Duration timeout) {
  auto answer = client.call(std::move(request), timeout);
  if (!answer) return std::unexpected(to_error(answer.error()));
  return *std::move(answer);
}

/// What may not be done there: "list pods".
Result<std::vector<std::string>> forbidden(const BlockingClient& client, const std::vector<Collection>& collections,
                                           Duration timeout) {
  std::vector<std::string> verbs;
  for (const Collection& in : collections) {
    for (const std::string_view verb : {"list", "watch"}) {
      KVIST_TRY(const std::string body, call(client, may_i(verb, in), timeout));
      KVIST_TRY(const kubernetes::AccessAnswer answer, kubernetes::read_access_answer(body));
      if (!answer.allowed) verbs.push_back(fmt::format("{} {}", verb, in.resource.plural));
    }
  }
  return verbs;
}

/// Lists the collection whole, as the gateway does.
template <class T>
Result<void> list_all(const BlockingClient& client, const Collection& in, kubernetes::Informer<T>& informer,
                      Duration timeout) {
  constexpr std::uint32_t kPage = 500;
  while (!informer.protocol().synced()) {
    const auto action = informer.poll(net::now());
    if (action.kind != kubernetes::ListWatch::Action::Kind::kList)
      return fail(ErrorCode::kCorrupt, informer.protocol().problem());
    KVIST_TRY(const std::string page, call(client, list(in, kPage, action.continue_token), timeout));
    informer.on_page(page, net::now());
  }
  return {};
}

/// Whether all of these may be listed and watched; otherwise what may not be is noted.
using MayFollow = std::function<Result<bool>(const std::vector<Collection>& collections)>;

Result<std::vector<kubernetes::Worker>> endpoints_of_service(const BlockingClient& client,
                                                             const spec::KubernetesSourceSpec& source,
                                                             const kubernetes::WorkerSelection& selection,
                                                             const MayFollow& may, Duration timeout,
                                                             ClusterFacts& facts) {
  std::vector<Collection> collections{gateway::slices_of(source, facts.name_space)};
  if (selection.watches_pods) collections.push_back(gateway::pods_of(source, facts.name_space));
  KVIST_TRY(const bool allowed, may(collections));
  if (!allowed) return {};
  kubernetes::Informer<kubernetes::EndpointSlice> slices(kubernetes::read_endpoint_slice, 1);
  kubernetes::Informer<kubernetes::PodMetadata> pods(kubernetes::read_pod_metadata, 1);
  KVIST_TRY_VOID(list_all(client, collections.front(), slices, timeout));
  if (selection.watches_pods) KVIST_TRY_VOID(list_all(client, collections.back(), pods, timeout));
  facts.objects = fmt::format("{} EndpointSlices", slices.objects().size());
  return kubernetes::workers_of(slices.objects(), pods.objects(), selection);
}

Result<std::vector<kubernetes::Worker>> endpoints_of_pool(const BlockingClient& client,
                                                          const spec::KubernetesSourceSpec& source,
                                                          const kubernetes::WorkerSelection& selection,
                                                          const MayFollow& may, Duration timeout, ClusterFacts& facts) {
  const Collection pool = gateway::pool_of(source, facts.name_space);
  KVIST_TRY(const bool allowed, may({pool, gateway::pods_of_pool("", facts.name_space)}));
  if (!allowed) return {};
  kubernetes::Informer<kubernetes::InferencePool> pools(kubernetes::read_inference_pool, 1);
  KVIST_TRY_VOID(list_all(client, pool, pools, timeout));
  if (pools.objects().empty()) {
    if (pools.unreadable() > 0) return fail(ErrorCode::kCorrupt, pools.unreadable_problem());
    facts.objects = "no InferencePool of that name";
    return {};
  }
  const kubernetes::InferencePool& found = pools.objects().begin()->second;
  kubernetes::Informer<kubernetes::Pod> pods(kubernetes::read_pod, 1);
  KVIST_TRY_VOID(list_all(client, gateway::pods_of_pool(found.label_selector(), facts.name_space), pods, timeout));
  facts.objects = fmt::format("{} pods with {}", pods.objects().size(), found.label_selector());
  return kubernetes::workers_of(found, pods.objects(), selection);
}

Result<void> ask(const spec::WorkerGroupSpec& group, const std::string& model, Duration timeout, ClusterFacts& facts,
                 std::vector<spec::UpstreamSpec>& workers) {
  const spec::KubernetesSourceSpec& source = *group.kubernetes;
  KVIST_TRY(kubernetes::ClusterAccess access, kubernetes::find_access(source.kubeconfig, [](const std::string& name) {
              return gateway::process_environment(name.c_str());
            }));
  facts.server = access.server;
  facts.name_space = source.name_space.empty() ? access.name_space : source.name_space;
  KVIST_TRY(const BlockingClient client, BlockingClient::create(std::move(access)));
  KVIST_TRY_VOID(call(client, kubernetes::version(), timeout));
  facts.answers = true;
  const auto may = [&](const std::vector<Collection>& collections) -> Result<bool> {
    KVIST_TRY(facts.forbidden, forbidden(client, collections, timeout));
    return facts.forbidden.empty();
  };
  const kubernetes::WorkerSelection selection = gateway::selection_of(group, model);
  std::vector<kubernetes::Worker> endpoints;
  if (source.inference_pool.empty()) {
    KVIST_TRY(endpoints, endpoints_of_service(client, source, selection, may, timeout, facts));
  } else {
    KVIST_TRY(endpoints, endpoints_of_pool(client, source, selection, may, timeout, facts));
  }
  std::vector<spec::UpstreamSpec> found = gateway::workers_of(group, endpoints);
  facts.workers = found.size();
  if (found.size() > kMostOfService) found.resize(kMostOfService);
  workers.insert(workers.end(), found.begin(), found.end());
  return {};
}

}  // namespace

ClusterFacts ask_cluster(const spec::WorkerGroupSpec& group, const std::string& model, Duration timeout,
                         std::vector<spec::UpstreamSpec>& workers) {
  ClusterFacts facts{.group = group.name, .service = gateway::name_of(*group.kubernetes)};
  if (const auto asked = ask(group, model, timeout, facts, workers); !asked) facts.problem = asked.error().message;
  return facts;
}

}  // namespace kvist::doctor

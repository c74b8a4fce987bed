#include "kvist/doctor/cluster_facts.h"

#include <fmt/format.h>

#include <functional>
#include <string>
#include <utility>

#include "kvist/gateway/kubernetes_groups.h"
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
  std::vector<Collection> collections{{.resource = kubernetes::kEndpointSlices,
                                       .name_space = facts.name_space,
                                       .label_selector = gateway::slices_of(source)}};
  if (!source.pods.empty())
    collections.push_back({.resource = kubernetes::kPods,
                           .name_space = facts.name_space,
                           .label_selector = source.pods,
                           .metadata_only = true});
  KVIST_TRY(facts.forbidden, forbidden(client, collections, timeout));
  if (!facts.forbidden.empty()) return {};
  kubernetes::Informer<kubernetes::EndpointSlice> slices(kubernetes::read_endpoint_slice, 1);
  kubernetes::Informer<kubernetes::PodMetadata> pods(kubernetes::read_pod_metadata, 1);
  KVIST_TRY_VOID(list_all(client, collections.front(), slices, timeout));
  if (!source.pods.empty()) KVIST_TRY_VOID(list_all(client, collections.back(), pods, timeout));
  facts.slices = slices.objects().size();
  std::vector<spec::UpstreamSpec> found = gateway::workers_of(
      group, kubernetes::workers_of(slices.objects(), pods.objects(), gateway::selection_of(group, model)));
  facts.workers = found.size();
  if (found.size() > kMostOfService) found.resize(kMostOfService);
  workers.insert(workers.end(), found.begin(), found.end());
  return {};
}

}  // namespace

ClusterFacts ask_cluster(const spec::WorkerGroupSpec& group, const std::string& model, Duration timeout,
                         std::vector<spec::UpstreamSpec>& workers) {
  ClusterFacts facts{.group = group.name, .service = group.kubernetes->service};
  if (const auto asked = ask(group, model, timeout, facts, workers); !asked) facts.problem = asked.error().message;
  return facts;
}

}  // namespace kvist::doctor

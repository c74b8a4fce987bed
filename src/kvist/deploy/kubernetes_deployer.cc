#include "kvist/deploy/kubernetes_deployer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "kvist/base/check.h"
#include "kvist/deploy/upstreams.h"
#include "kvist/kubernetes/answers.h"
#include "kvist/kubernetes/objects.h"
#include "kvist/net/event_loop.h"

namespace kvist::deploy {
namespace {

constexpr Duration kAliveEvery = std::chrono::milliseconds(500);
constexpr Duration kRemoval = std::chrono::seconds(30);

Result<PodAddress> pod_in(const KubernetesPart& part, const kubernetes::ApiResult<std::string>& slices) {
  if (!slices) return std::unexpected(to_error(slices.error()).in(part.object));
  auto pod = read_pod_address(*slices);
  if (!pod) return std::unexpected(std::move(pod).error().in(part.object));
  return *pod;
}

}  // namespace

Result<std::unique_ptr<KubernetesDeployer>> KubernetesDeployer::create(const spec::DeploymentSpec& deployment) {
  const spec::KubernetesDeploymentSpec& kubernetes = *deployment.kubernetes;
  KVIST_TRY(ClusterSession session,
            ClusterSession::create(
                kubernetes.kubeconfig, kubernetes.name_space,
                {.name = kubernetes.field_manager, .force = kubernetes.force, .setting = "kubernetes.force"}));
  return std::unique_ptr<KubernetesDeployer>(new KubernetesDeployer(kubernetes, std::move(session)));
}

Result<void> KubernetesDeployer::apply(const spec::DeploymentSpec& deployment, const Until& until) {
  client_.reset();
  const Until patient{.deadline = net::now() + kubernetes_.ready_timeout, .stop = until.stop};
  KVIST_TRY(std::vector<KubernetesPart> parts, kubernetes_parts(deployment, session_.name_space()));
  auto applied = apply_parts(std::move(parts), patient);
  auto addresses = applied ? find_addresses(deployment) : std::unexpected(std::move(applied).error());
  if (!addresses) {
    remove_parts();
    return std::unexpected(std::move(addresses).error());
  }
  client_.emplace(*std::move(addresses), [this] { return check_alive(); });
  return {};
}

// All are applied before any is waited for, so that they start side by side.
Result<void> KubernetesDeployer::apply_parts(std::vector<KubernetesPart> parts, const Until& until) {
  KVIST_TRY_VOID(remove_all_of(parts.front().deployment, until));
  for (const KubernetesPart& part : parts) {
    KVIST_TRY_VOID(check_own(kubernetes::kServices, part));
    KVIST_TRY_VOID(check_own(kubernetes::kDeployments, part));
  }
  parts_ = std::move(parts);
  for (const KubernetesPart& part : parts_) {
    KVIST_TRY(const std::string service, session_.apply(kubernetes::kServices, part.object, part.service, until));
    KVIST_TRY(const std::string workload, session_.apply(kubernetes::kDeployments, part.object, part.workload, until));
  }
  for (const KubernetesPart& part : parts_) {
    KVIST_TRY_VOID(await_rollout(part, until));
    KVIST_TRY_VOID(retry_until(
        until, part.object + ": waiting for its address", [] { return Result<void>{}; },
        [&]() -> Result<void> {
          KVIST_TRY(const PodAddress pod, pod_of(part));
          return {};
        }));
  }
  return {};
}

// Page by page: what is removed is on no later page.
Result<void> KubernetesDeployer::remove_all_of(const std::string& deployment, const Until& until) const {
  const kubernetes::Collection all = session_.all(kubernetes::kDeployments, fmt::format("{}={}", kPartOf, deployment));
  bool more = true;
  while (more) {
    const auto listed = session_.list(all);
    if (!listed) return std::unexpected(to_error(listed.error()).in("Deployments of " + deployment));
    JsonDocument document({.name = "DeploymentList"});
    KVIST_TRY(const kubernetes::ListPage page, kubernetes::read_list_page(document, *listed));
    more = !page.continue_token.empty() && net::now() < until.deadline;
    if (!page.items) return {};
    for (const JsonValue item : *page.items) {
      KVIST_TRY(const JsonObject object, item.as_object());
      KVIST_TRY(const kubernetes::ObjectName name, kubernetes::read_object_name(object));
      KVIST_TRY_VOID(remove(name.name, until));
    }
  }
  return {};
}

Result<void> KubernetesDeployer::check_own(const kubernetes::Resource& resource, const KubernetesPart& part) const {
  const auto found = session_.get(resource, part.object);
  if (!found && found.error().kind == kubernetes::ApiErrorKind::kNotFound) return {};
  const std::string what = fmt::format("{} {}/{}", resource.plural, session_.name_space(), part.object);
  if (!found) return std::unexpected(to_error(found.error()).in(what));
  JsonDocument document({.name = what});
  KVIST_TRY(const JsonObject object, document.parse_object(*found));
  KVIST_TRY(const kubernetes::PodMetadata metadata, kubernetes::read_pod_metadata(object));
  if (metadata.find(kPartOf) == part.deployment) return {};  // being removed still
  return fail(ErrorCode::kInvalidArgument,
              fmt::format("{} is there already and is not of this deployment (no label {}={}): give the deployment "
                          "another name or namespace, or remove it",
                          what, kPartOf, part.deployment));
}

Result<void> KubernetesDeployer::await_rollout(const KubernetesPart& part, const Until& until) const {
  return retry_until(
      until, part.object + ": waiting for its pod", [] { return Result<void>{}; },
      [&]() -> Result<void> {
        const auto object = session_.get(kubernetes::kDeployments, part.object);
        if (!object) return std::unexpected(to_error(object.error()));
        KVIST_TRY(const RolloutState state, read_rollout_state(*object));
        if (state.done()) return {};
        return fail(ErrorCode::kUnavailable,
                    fmt::format("generation {} of {}, {} pods of which {} are new, {} available{}{}", state.observed,
                                state.generation, state.replicas, state.updated, state.available,
                                state.problem.empty() ? "" : "; ", state.problem));
      });
}

kubernetes::ApiResult<std::string> KubernetesDeployer::slices_of(const KubernetesPart& part) const {
  return session_.list(
      session_.all(kubernetes::kEndpointSlices, fmt::format("kubernetes.io/service-name={}", part.object)));
}

Result<PodAddress> KubernetesDeployer::pod_of(const KubernetesPart& part) const {
  return pod_in(part, slices_of(part));
}

Result<Addresses> KubernetesDeployer::find_addresses(const spec::DeploymentSpec& deployment) const {
  Addresses addresses;
  for (const spec::ServedModelSpec& model : spec::served_models(deployment.gateway))
    addresses.models.push_back(model.model);
  for (const KubernetesPart& part : parts_) {
    KVIST_TRY(const PodAddress pod, pod_of(part));
    PartAddress address{.name = part.name,
                        .url = fmt::format("http://{}:{}", pod.host, pod.http),
                        .admin = fmt::format("http://{}:{}", pod.host, pod.admin),
                        .model = part.model};
    if (part.name == kGatewayName) {
      addresses.gateway = std::move(address);
    } else {
      addresses.workers.push_back(std::move(address));
    }
  }
  return addresses;
}

Result<const DeploymentClient*> KubernetesDeployer::running() const {
  if (!client_) return fail(ErrorCode::kUnavailable, "no deployment is running");
  return &*client_;
}

Result<void> KubernetesDeployer::await_ready(const Until& until) {
  KVIST_TRY(const DeploymentClient* client, running());
  return client->await_ready(until);
}

Result<void> KubernetesDeployer::set_routing_mode(spec::RoutingMode mode) {
  KVIST_TRY(const DeploymentClient* client, running());
  return client->set_routing_mode(mode);
}

Result<void> KubernetesDeployer::empty_caches(const Until& until) {
  KVIST_TRY(const DeploymentClient* client, running());
  return client->empty_caches(until);
}

Result<std::vector<WorkerMetrics>> KubernetesDeployer::collect() {
  KVIST_TRY(const DeploymentClient* client, running());
  return client->collect();
}

Result<void> KubernetesDeployer::await_idle(const Until& until) {
  KVIST_TRY(const DeploymentClient* client, running());
  return client->await_idle(until);
}

Result<void> KubernetesDeployer::check_alive() {
  if (!client_ || net::now() < next_look_) return {};
  next_look_ = net::now() + kAliveEvery;
  const Addresses& known = client_->addresses();
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const auto slices = slices_of(parts_[i]);
    // An API server that does not answer says nothing of the pods.
    if (!slices && ClusterSession::is_temporary(slices.error())) return {};
    KVIST_TRY(const PodAddress pod, pod_in(parts_[i], slices));
    const PartAddress& was = i < known.workers.size() ? known.workers[i] : known.gateway;
    if (was.url != fmt::format("http://{}:{}", pod.host, pod.http))
      return fail(ErrorCode::kUnavailable,
                  fmt::format("{}: its pod was {} and is another one now, at {}", parts_[i].object, was.url, pod.host));
  }
  return {};
}

const Addresses& KubernetesDeployer::addresses() const {
  KVIST_CHECK(client_.has_value(), "addresses() before apply()");
  return client_->addresses();
}

Result<void> KubernetesDeployer::remove(const std::string& object, const Until& until) const {
  KVIST_TRY_VOID(session_.remove(kubernetes::kDeployments, object, until));
  return session_.remove(kubernetes::kServices, object, until);
}

// The gateway goes first, so that it does not count the ends of its workers as failures.
void KubernetesDeployer::remove_parts() {
  const Until until = Until::after(kRemoval, {});
  std::ranges::reverse(parts_);
  for (const KubernetesPart& part : parts_) (void)remove(part.object, until);
  parts_.clear();
}

void KubernetesDeployer::stop() {
  client_.reset();
  if (!kubernetes_.keep) remove_parts();
  parts_.clear();
}

}  // namespace kvist::deploy

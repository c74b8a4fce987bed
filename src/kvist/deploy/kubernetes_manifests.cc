#include "kvist/deploy/kubernetes_manifests.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <utility>

#include "kvist/base/json.h"
#include "kvist/base/json_writer.h"
#include "kvist/deploy/upstreams.h"
#include "kvist/kubernetes/answers.h"
#include "kvist/kubernetes/objects.h"

namespace kvist::deploy {
namespace {

constexpr std::string_view kSettings = "kvist.io/settings";  // the annotation
constexpr std::string_view kFolder = "/etc/kvist";
/// Kubernetes' bound of all annotations of an object, less what others may add.
constexpr std::size_t kMostSettingsBytes = 200U << 10;
/// A pod is killed so long after its own drain should be over.
constexpr Duration kGrace = std::chrono::seconds(15);

struct Part {
  std::string name;
  std::string object;
  std::string deployment;
  std::string kind;  // "worker", "gateway": also kvist's command
  std::string settings;
  Duration drain{};
  bool has_events = false;
  const spec::ContainerResourcesSpec& resources;
};

/// RFC 1035: what a Service may be called.
bool is_service_name(std::string_view name) {
  const auto is_letter = [](char c) { return c >= 'a' && c <= 'z'; };
  const auto is_inner = [&](char c) { return is_letter(c) || (c >= '0' && c <= '9') || c == '-'; };
  return !name.empty() && name.size() <= 63 && is_letter(name.front()) && name.back() != '-' &&
         std::ranges::all_of(name, is_inner);
}

void write_labels(JsonWriter& json, std::string_view key, const Part& part) {
  json.key(key).begin_object().field("app.kubernetes.io/name", "kvist");
  json.field("app.kubernetes.io/component", part.kind).field("app.kubernetes.io/instance", part.object);
  json.field(kPartOf, part.deployment).end_object();
}

void begin_object(JsonWriter& json, std::string_view version, std::string_view kind, const Part& part,
                  const std::string& name_space) {
  json.begin_object().field("apiVersion", version).field("kind", kind);
  json.key("metadata").begin_object().field("name", part.object).field("namespace", name_space);
  write_labels(json, "labels", part);
  json.end_object();
}

struct Port {
  std::string_view name;
  std::uint16_t number;
};

std::vector<Port> ports_of(const Part& part) {
  std::vector<Port> ports{{kHttpPortName, kPodHttpPort}, {kAdminPortName, kPodAdminPort}};
  if (part.has_events) ports.insert(ports.end(), {{"kv-events", kPodKvEventsPort}, {"kv-replay", kPodKvReplayPort}});
  return ports;
}

void write_resources(JsonWriter& json, const spec::ContainerResourcesSpec& resources) {
  if (resources == spec::ContainerResourcesSpec{}) return;
  json.key("resources").begin_object();
  for (const char* key : {"limits", "requests"}) {
    json.key(key).begin_object();
    if (!resources.cpu.empty()) json.field("cpu", resources.cpu);
    if (!resources.memory.empty()) json.field("memory", resources.memory);
    json.end_object();
  }
  json.end_object();
}

void write_mount(JsonWriter& json, std::string_view name, std::string_view path) {
  json.begin_object().field("name", name).field("mountPath", path).field("readOnly", true).end_object();
}

void write_container(JsonWriter& json, const Part& part, const spec::KubernetesDeploymentSpec& kubernetes) {
  json.begin_object().field("name", part.kind).field("image", kubernetes.image);
  json.key("args").begin_array().value(part.kind).value("-f").value(fmt::format("{}/{}.yaml", kFolder, part.kind));
  json.end_array().key("ports").begin_array();
  for (const Port& port : ports_of(part))
    json.begin_object().field("name", port.name).field("containerPort", port.number).end_object();
  json.end_array();
  json.key("readinessProbe").begin_object().key("httpGet").begin_object();
  json.field("path", "/health").field("port", kHttpPortName).end_object();
  json.field("periodSeconds", 1).field("failureThreshold", 2).end_object();
  json.key("securityContext").begin_object().field("allowPrivilegeEscalation", false);
  json.field("readOnlyRootFilesystem", true).key("capabilities").begin_object();
  json.key("drop").begin_array().value("ALL").end_array().end_object().end_object();
  write_resources(json, part.resources);
  json.key("volumeMounts").begin_array();
  write_mount(json, "settings", kFolder);
  if (!kubernetes.models_claim.empty()) write_mount(json, "models", "/models");
  json.end_array().end_object();
}

void write_volumes(JsonWriter& json, const Part& part, const spec::KubernetesDeploymentSpec& kubernetes) {
  json.key("volumes").begin_array();
  json.begin_object().field("name", "settings").key("downwardAPI").begin_object().key("items").begin_array();
  json.begin_object().field("path", part.kind + ".yaml").key("fieldRef").begin_object();
  json.field("fieldPath", fmt::format("metadata.annotations['{}']", kSettings)).end_object().end_object();
  json.end_array().end_object().end_object();
  if (!kubernetes.models_claim.empty()) {
    json.begin_object().field("name", "models").key("persistentVolumeClaim").begin_object();
    json.field("claimName", kubernetes.models_claim).field("readOnly", true).end_object().end_object();
  }
  json.end_array();
}

std::string workload_of(const Part& part, const spec::KubernetesDeploymentSpec& kubernetes,
                        const std::string& name_space, int indent) {
  JsonWriter json(indent);
  begin_object(json, "apps/v1", "Deployment", part, name_space);
  json.key("spec").begin_object().field("replicas", 1);
  json.key("selector").begin_object();
  write_labels(json, "matchLabels", part);
  json.end_object();
  // One pod at a time has a worker's GPU, and the two of them would share its requests.
  json.key("strategy").begin_object().field("type", "Recreate").end_object();
  json.key("template").begin_object().key("metadata").begin_object();
  write_labels(json, "labels", part);
  json.key("annotations").begin_object().field(kSettings, part.settings).end_object().end_object();
  json.key("spec").begin_object().field("automountServiceAccountToken", false);
  json.field("terminationGracePeriodSeconds", std::chrono::ceil<std::chrono::seconds>(part.drain + kGrace).count());
  json.key("securityContext").begin_object().field("runAsNonRoot", true);
  json.key("seccompProfile").begin_object().field("type", "RuntimeDefault").end_object().end_object();
  json.key("containers").begin_array();
  write_container(json, part, kubernetes);
  json.end_array();
  write_volumes(json, part, kubernetes);
  json.end_object().end_object().end_object().end_object();
  return json.take();
}

std::string service_of(const Part& part, const std::string& name_space, int indent) {
  JsonWriter json(indent);
  begin_object(json, "v1", "Service", part, name_space);
  json.key("spec").begin_object();
  write_labels(json, "selector", part);
  json.key("ports").begin_array();
  for (const Port& port : ports_of(part)) {
    json.begin_object().field("name", port.name).field("port", port.number).field("targetPort", port.name).end_object();
  }
  json.end_array().end_object().end_object();
  return json.take();
}

Result<KubernetesPart> made(const Part& part, std::string model, const spec::KubernetesDeploymentSpec& kubernetes,
                            const std::string& name_space, int indent) {
  if (!is_service_name(part.object))
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("\"{}\" cannot be a Service's name: at most 63 lower-case letters, digits and hyphens, "
                            "beginning with a letter; it is the deployment's name and the part's",
                            part.object));
  if (part.settings.size() > kMostSettingsBytes)
    return fail(ErrorCode::kInvalidArgument, fmt::format("{}: settings of {} bytes; a pod's annotations hold {}",
                                                         part.object, part.settings.size(), kMostSettingsBytes));
  return KubernetesPart{.name = part.name,
                        .object = part.object,
                        .deployment = part.deployment,
                        .model = std::move(model),
                        .workload = workload_of(part, kubernetes, name_space, indent),
                        .service = service_of(part, name_space, indent)};
}

void listen_in_pod(spec::Endpoint& http, spec::Endpoint& admin) {
  http = {.host = "0.0.0.0", .port = kPodHttpPort};
  admin = {.host = "0.0.0.0", .port = kPodAdminPort};
}

spec::WorkerSpec in_pod(spec::WorkerSpec worker) {
  listen_in_pod(worker.http, worker.admin);
  worker.kv_events_port = kPodKvEventsPort;
  worker.kv_replay_port = kPodKvReplayPort;
  return worker;
}

std::int64_t count_of(const JsonObject& object, std::string_view name) {
  const auto value = object.find_int(name, 0, INT64_MAX);
  return value ? value->value_or(0) : 0;
}

std::uint16_t port_of(const kubernetes::EndpointSlice& slice, std::string_view name) {
  const auto found = std::ranges::find(slice.ports, name, &kubernetes::EndpointPort::name);
  return found == slice.ports.end() ? std::uint16_t{0} : found->port;
}

/// Of the conditions, why no pod can be made, or made in time.
Result<std::string> problem_in(const JsonObject& status) {
  KVIST_TRY(const auto conditions, status.find_array("conditions"));
  if (!conditions) return std::string();
  std::string problem;
  for (const JsonValue value : *conditions) {
    KVIST_TRY(const JsonObject condition, value.as_object());
    const std::string type = kubernetes::text_in(condition, "type");
    const std::string holds = kubernetes::text_in(condition, "status");
    const bool bad = (type == "ReplicaFailure" && holds == "True") || (type != "ReplicaFailure" && holds == "False");
    if (bad)
      problem =
          fmt::format("{}: {}", kubernetes::text_in(condition, "reason"), kubernetes::text_in(condition, "message"));
  }
  return problem;
}

}  // namespace

Result<std::vector<KubernetesPart>> kubernetes_parts(const spec::DeploymentSpec& deployment,
                                                     const std::string& name_space, int indent) {
  const spec::KubernetesDeploymentSpec& kubernetes = *deployment.kubernetes;
  const auto object_of = [&](const std::string& part) { return fmt::format("{}-{}", deployment.name, part); };
  std::vector<KubernetesPart> parts;
  spec::GatewaySpec gateway = without_upstreams(deployment.gateway);
  for (const spec::WorkerSpec& configured : deployment.workers) {
    if (configured.name == kGatewayName)
      return fail(ErrorCode::kInvalidArgument, "a worker must not be called gateway");
    const spec::WorkerSpec worker = in_pod(configured);
    const Part part{.name = worker.name,
                    .object = object_of(worker.name),
                    .deployment = deployment.name,
                    .kind = "worker",
                    .settings = "worker:\n" + spec::to_yaml(worker, 2),
                    .drain = worker.drain_timeout,
                    .has_events = true,
                    .resources = kubernetes.worker};
    KVIST_TRY(KubernetesPart done, made(part, worker.model, kubernetes, name_space, indent));
    parts.push_back(std::move(done));
    const std::string host = fmt::format("{}.{}.svc", part.object, name_space);
    fleet_of(gateway, worker.model)
        .push_back({.name = worker.name,
                    .url = fmt::format("http://{}:{}", host, kPodHttpPort),
                    .kv_events = fmt::format("tcp://{}:{}", host, kPodKvEventsPort),
                    .kv_replay = fmt::format("tcp://{}:{}", host, kPodKvReplayPort)});
  }
  listen_in_pod(gateway.http, gateway.admin);
  const Part part{.name = std::string(kGatewayName),
                  .object = object_of(std::string(kGatewayName)),
                  .deployment = deployment.name,
                  .kind = "gateway",
                  .settings = "gateway:\n" + spec::to_yaml(gateway, 2),
                  .drain = gateway.drain_timeout,
                  .resources = kubernetes.gateway};
  KVIST_TRY(KubernetesPart done, made(part, {}, kubernetes, name_space, indent));
  parts.push_back(std::move(done));
  return parts;
}

Result<RolloutState> read_rollout_state(std::string_view object) {
  JsonDocument document({.name = "Deployment"});
  KVIST_TRY(const JsonObject root, document.parse_object(object));
  KVIST_TRY(const JsonObject metadata, root.require_object("metadata"));
  RolloutState state{.generation = count_of(metadata, "generation")};
  KVIST_TRY(const auto status, root.find_object("status"));
  if (!status) return state;  // nobody has looked at it yet
  state.observed = count_of(*status, "observedGeneration");
  state.replicas = count_of(*status, "replicas");
  state.updated = count_of(*status, "updatedReplicas");
  state.available = count_of(*status, "availableReplicas");
  KVIST_TRY(state.problem, problem_in(*status));
  return state;
}

Result<PodAddress> read_pod_address(std::string_view slices) {
  JsonDocument document({.name = "EndpointSliceList"});
  KVIST_TRY(const kubernetes::ListPage page, kubernetes::read_list_page(document, slices));
  std::map<std::string, PodAddress> ready[2];  // by host: IPv4, IPv6
  if (page.items) {
    for (const JsonValue item : *page.items) {
      KVIST_TRY(const JsonObject object, item.as_object());
      KVIST_TRY(const kubernetes::EndpointSlice slice, kubernetes::read_endpoint_slice(object));
      if (slice.address_type == "FQDN") continue;
      const bool v6 = slice.address_type == "IPv6";
      for (const kubernetes::Endpoint& endpoint : slice.endpoints) {
        if (!endpoint.ready || endpoint.terminating) continue;
        std::string host = v6 ? fmt::format("[{}]", endpoint.address) : endpoint.address;
        ready[v6 ? 1 : 0][host] = {
            .host = host, .http = port_of(slice, kHttpPortName), .admin = port_of(slice, kAdminPortName)};
      }
    }
  }
  // A pod with addresses of both kinds is in slices of both kinds.
  const std::map<std::string, PodAddress>& found = ready[0].empty() ? ready[1] : ready[0];
  if (found.empty()) return fail(ErrorCode::kUnavailable, "no pod is ready");
  if (found.size() > 1) return fail(ErrorCode::kUnavailable, "more than one pod is ready");
  const PodAddress& pod = found.begin()->second;
  if (pod.http == 0 || pod.admin == 0)
    return fail(ErrorCode::kUnavailable, "its slice has no ports called http and admin");
  return pod;
}

}  // namespace kvist::deploy

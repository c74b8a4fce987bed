// Objects of a deployment in Kubernetes, and their status.
#include "kvist/deploy/kubernetes_manifests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <string>

#include "kvist/base/json.h"
#include "kvist/base/yaml.h"

namespace kvist::deploy::kubernetes_manifests_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

spec::DeploymentSpec two_workers() {
  spec::DeploymentSpec deployment;
  deployment.name = "bench";
  deployment.kubernetes = {.image = "kvist:1", .models_claim = "models", .worker = {.cpu = "4", .memory = "8Gi"}};
  deployment.workers.resize(2);
  for (std::size_t i = 0; i < 2; ++i) {
    deployment.workers[i].name = fmt::format("worker-{}", i);
    deployment.workers[i].model = "m";
    deployment.workers[i].http = {.host = "127.0.0.1", .port = 0};
  }
  deployment.gateway.model = "m";
  deployment.gateway.mode = spec::RoutingMode::kKv;
  return deployment;
}

std::vector<KubernetesPart> parts_of(const spec::DeploymentSpec& deployment) {
  auto parts = kubernetes_parts(deployment, "llm");
  EXPECT_TRUE(parts) << (parts ? "" : parts.error().message);
  return parts ? *std::move(parts) : std::vector<KubernetesPart>{};
}

std::string error_of(const spec::DeploymentSpec& deployment) {
  const auto parts = kubernetes_parts(deployment, "llm");
  return parts ? "" : parts.error().message;
}

/// The settings that the pod of a workload gets, as YAML.
std::string settings_in(const std::string& workload) {
  JsonDocument document({.name = "Deployment"});
  JsonObject at = document.parse_object(workload).value();
  for (const char* key : {"spec", "template", "metadata", "annotations"}) at = at.require_object(key).value();
  return std::string(at.require_string("kvist.io/settings").value());
}

TEST(KubernetesParts, AreTheWorkersAndThenTheGateway) {
  const auto parts = parts_of(two_workers());
  ASSERT_EQ(parts.size(), 3U);
  EXPECT_THAT((std::vector{parts[0].object, parts[1].object, parts[2].object}),
              ElementsAre("bench-worker-0", "bench-worker-1", "bench-gateway"));
  EXPECT_THAT((std::vector{parts[0].model, parts[2].model}), ElementsAre("m", ""));
  EXPECT_THAT(parts[0].workload,
              HasSubstr(R"("limits":{"cpu":"4","memory":"8Gi"},"requests":{"cpu":"4","memory":"8Gi"})"));
  EXPECT_THAT(parts[0].workload, HasSubstr(R"("persistentVolumeClaim":{"claimName":"models","readOnly":true})"));
  EXPECT_THAT(parts[2].workload, Not(HasSubstr("\"limits\"")));
  EXPECT_THAT(parts[0].workload, HasSubstr(R"("args":["worker","-f","/etc/kvist/worker.yaml"])"));
  EXPECT_THAT(parts[0].service, HasSubstr(R"({"name":"kv-events","port":5557,"targetPort":"kv-events"})"));
  EXPECT_THAT(parts[2].service, Not(HasSubstr("kv-events")));
  for (const KubernetesPart& part : parts) {
    JsonDocument document({.name = part.object});
    EXPECT_TRUE(document.parse_object(part.workload));
    EXPECT_TRUE(document.parse_object(part.service));
  }
}

TEST(KubernetesParts, APodsSettingsAreTheSpecificationWithItsPortsAndTheNamesOfTheOthers) {
  const auto parts = parts_of(two_workers());
  const std::string worker_yaml = settings_in(parts[1].workload);
  const auto worker_root = YamlNode::parse(worker_yaml, "pod");
  ASSERT_TRUE(worker_root) << worker_root.error().message;
  const auto worker = spec::read_worker(*worker_root->get("worker"));
  ASSERT_TRUE(worker) << worker.error().message;
  EXPECT_EQ(worker->name, "worker-1");
  EXPECT_EQ(worker->http, (spec::Endpoint{.host = "0.0.0.0", .port = kPodHttpPort}));
  EXPECT_EQ(worker->kv_events_port, kPodKvEventsPort);
  const auto gateway_root = YamlNode::parse(settings_in(parts[2].workload), "pod");
  const auto gateway = spec::read_gateway(*gateway_root->get("gateway"));
  ASSERT_TRUE(gateway) << gateway.error().message;
  ASSERT_EQ(gateway->workers.size(), 2U);
  EXPECT_EQ(gateway->workers[1].name, "worker-1");
  EXPECT_EQ(gateway->workers[1].url, "http://bench-worker-1.llm.svc:8000");
  EXPECT_EQ(gateway->workers[1].kv_events, "tcp://bench-worker-1.llm.svc:5557");
  EXPECT_EQ(gateway->mode, spec::RoutingMode::kKv);
}

TEST(KubernetesParts, RefusesWhatTheClusterWouldRefuse) {
  spec::DeploymentSpec deployment = two_workers();
  deployment.name = "Bench";
  EXPECT_THAT(error_of(deployment), HasSubstr("\"Bench-worker-0\" cannot be a Service's name"));
  deployment.name = std::string(60, 'a');
  EXPECT_THAT(error_of(deployment), HasSubstr("at most 63"));
  deployment.name = "1st";
  EXPECT_THAT(error_of(deployment), HasSubstr("beginning with a letter"));
  deployment.name = "bench";
  deployment.workers[1].name = "gateway";
  EXPECT_THAT(error_of(deployment), HasSubstr("must not be called gateway"));
  deployment.workers[1].name = "worker-1";
  deployment.workers[1].tokenizer = std::string(300 << 10, 'x');
  EXPECT_THAT(error_of(deployment), HasSubstr("bench-worker-1: settings of "));
}

RolloutState state_of(const std::string& status, int generation = 3) {
  const auto state = read_rollout_state(
      fmt::format(R"({{"kind":"Deployment","metadata":{{"generation":{}}},"status":{}}})", generation, status));
  EXPECT_TRUE(state) << (state ? "" : state.error().message);
  return state.value_or(RolloutState{});
}

TEST(Rollout, IsDoneWhenTheOnlyPodIsTheNewOne) {
  EXPECT_TRUE(state_of(R"({"observedGeneration":3,"replicas":1,"updatedReplicas":1,"availableReplicas":1})").done());
  EXPECT_FALSE(state_of(R"({"observedGeneration":2,"replicas":1,"updatedReplicas":1,"availableReplicas":1})").done())
      << "of the generation before";
  EXPECT_FALSE(state_of(R"({"observedGeneration":3,"replicas":2,"updatedReplicas":1,"availableReplicas":1})").done())
      << "an old pod is there still";
  EXPECT_FALSE(state_of(R"({"observedGeneration":3,"replicas":1,"updatedReplicas":1})").done());
  EXPECT_FALSE(state_of("{}").done());
  EXPECT_FALSE(read_rollout_state(R"({"metadata":{"generation":1}})").value().done()) << "nobody has looked at it";
  EXPECT_FALSE(read_rollout_state(R"({"kind":"Deployment"})"));
}

TEST(Rollout, ItsProblemIsThatOfItsConditions) {
  EXPECT_EQ(state_of(R"({"conditions":[
      {"type":"Progressing","status":"True","reason":"ReplicaSetUpdated","message":"on its way"},
      {"type":"ReplicaFailure","status":"True","reason":"FailedCreate","message":"exceeded quota"}]})")
                .problem,
            "FailedCreate: exceeded quota");
  EXPECT_EQ(state_of(R"({"conditions":[
      {"type":"Progressing","status":"False","reason":"ProgressDeadlineExceeded","message":"has timed out"},
      {"type":"ReplicaFailure","status":"False","reason":"x","message":"y"}]})")
                .problem,
            "ProgressDeadlineExceeded: has timed out");
}

std::string slice(const std::string& type, const std::string& address, const std::string& conditions,
                  const std::string& ports = R"([{"name":"http","port":8000},{"name":"admin","port":8001}])") {
  return fmt::format(R"({{"metadata":{{"name":"s","namespace":"n","resourceVersion":"1"}},"addressType":"{}",)"
                     R"("ports":{},"endpoints":[{{"addresses":["{}"],"conditions":{}}}]}})",
                     type, ports, address, conditions);
}
std::string list(const std::vector<std::string>& slices) {
  std::string items;
  for (const std::string& each : slices) items += (items.empty() ? "" : ",") + each;
  return R"({"kind":"EndpointSliceList","metadata":{"resourceVersion":"9"},"items":[)" + items + "]}";
}

TEST(PodAddress, IsThatOfTheOnlyReadyPod) {
  const std::string ready = R"({"ready":true})";
  const auto of = [](const std::vector<std::string>& slices) { return read_pod_address(list(slices)); };
  const auto found = of({slice("IPv4", "10.0.0.2", R"({"ready":false})"), slice("IPv4", "10.0.0.1", ready)});
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->host, "10.0.0.1");
  EXPECT_EQ(found->http, 8'000);
  EXPECT_EQ(found->admin, 8'001);
  EXPECT_EQ(of({slice("IPv6", "fd00::1", ready), slice("IPv4", "10.0.0.1", ready)})->host, "10.0.0.1");
  EXPECT_EQ(of({slice("IPv6", "fd00::1", ready)})->host, "[fd00::1]");
  EXPECT_EQ(of({slice("IPv4", "10.0.0.1", ready), slice("IPv4", "10.0.0.1", ready)})->host, "10.0.0.1")
      << "an endpoint may be in two slices";
  EXPECT_EQ(of({}).error().message, "no pod is ready");
  EXPECT_EQ(of({slice("IPv4", "10.0.0.1", R"({"ready":true,"terminating":true})")}).error().message, "no pod is ready");
  EXPECT_EQ(of({slice("IPv4", "10.0.0.1", ready), slice("IPv4", "10.0.0.2", ready)}).error().message,
            "more than one pod is ready");
  EXPECT_THAT(of({slice("IPv4", "10.0.0.1", ready, R"([{"name":"http","port":8000}])")}).error().message,
              HasSubstr("no ports called http and admin"));
}

}  // namespace
}  // namespace kvist::deploy::kubernetes_manifests_test

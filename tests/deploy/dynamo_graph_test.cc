// Manifests of Dynamo's graphs, and their status.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <fstream>
#include <sstream>
#include <string>

#include "kvist/deploy/dynamo_graph.h"
#include "kvist/spec/files.h"

namespace kvist::deploy::dynamo_graph_test {
namespace {

using testing::HasSubstr;

const std::string kSource = KVIST_SOURCE_DIR;

spec::DeploymentSpec published() {
  auto read = spec::load_deployment(kSource + "/examples/experiments/trtllm-4x2h100-none-vs-kv-plan/deployment.yaml");
  EXPECT_TRUE(read) << (read ? "" : read.error().message);
  return read ? *std::move(read) : spec::DeploymentSpec{};
}

spec::DynamoTargetSpec target(spec::DynamoBackend backend) {
  const bool trtllm = backend == spec::DynamoBackend::kTrtllm;
  return {.name = "llama-70b",
          .graph = spec::DynamoGraphSpec{
              .backend = backend,
              .image = fmt::format("nvcr.io/nvidia/ai-dynamo/{}-runtime:1.4.0", trtllm ? "tensorrtllm" : "vllm"),
              .model_path = "/models/Llama-3.1-70B-FP8",
              .drafter_path = "/models/Llama-3.1-8B-FP8",
              .models_claim = "models"}};
}

void expect_golden(const std::string& name, const std::string& text) {
  std::ifstream file(kSource + "/tests/golden/dynamo/" + name);
  std::stringstream golden;
  golden << file.rdbuf();
  EXPECT_EQ(text + "\n", golden.str());
}

TEST(DynamoManifest, ThePublishedDeploymentComesOutOfItsFile) {
  expect_golden("published-trtllm.json", dynamo_manifest(target(spec::DynamoBackend::kTrtllm), published(), "llm",
                                                         spec::RoutingMode::kRoundRobin, 2)
                                             .value());
  expect_golden(
      "published-vllm.json",
      dynamo_manifest(target(spec::DynamoBackend::kVllm), published(), "llm", spec::RoutingMode::kKv, 2).value());
}

TEST(DynamoManifest, OfAGraphThatIsThereOnlyTheModeIsSet) {
  const spec::DynamoTargetSpec there{.name = "demo", .frontend = "Front"};
  EXPECT_EQ(dynamo_manifest(there, {}, "ns", spec::RoutingMode::kKv, 0).value(),
            R"({"apiVersion":"nvidia.com/v1beta1","kind":"DynamoGraphDeployment",)"
            R"("metadata":{"name":"demo","namespace":"ns"},"spec":{"components":[{"name":"Front","podTemplate":)"
            R"({"spec":{"containers":[{"name":"main","env":[{"name":"DYN_ROUTER_MODE","value":"kv"}]}]}}}]}})");
}

TEST(DynamoManifest, RefusesModesThatDynamoDoesNotHave) {
  const auto refused = dynamo_manifest({.name = "demo"}, {}, "ns", spec::RoutingMode::kSmetric, 0);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(refused.error().message, HasSubstr("round_robin, random, least_loaded, power_of_two and kv"));
  EXPECT_EQ(*dynamo_router_mode(spec::RoutingMode::kPowerOfTwo), "power-of-two");
}

TEST(DynamoManifest, NeedsAProfileForAGraph) {
  spec::DeploymentSpec deployment;
  deployment.workers.emplace_back();
  const auto refused = dynamo_manifest(target(spec::DynamoBackend::kVllm), deployment, "ns", spec::RoutingMode::kKv, 0);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("need a profile"));
}

std::string graph(int generation, int observed, const std::string& ready) {
  return R"({"metadata":{"generation":)" + std::to_string(generation) + R"(},"status":{"observedGeneration":)" +
         std::to_string(observed) + R"(,"state":"pending","conditions":[{"type":"Other","status":"True"},)" +
         R"({"type":"Ready","status":")" + ready + R"(","reason":"updating"}]}})";
}

TEST(GraphReadinessTest, IsOfTheChangeThatWasMade) {
  EXPECT_TRUE(read_graph_readiness(graph(2, 2, "True"))->done());
  EXPECT_FALSE(read_graph_readiness(graph(3, 2, "True"))->done()) << "ready is what ran before";
  EXPECT_FALSE(read_graph_readiness(graph(2, 2, "False"))->done());
  EXPECT_EQ(read_graph_readiness(graph(2, 2, "False"))->reason, "updating");
  EXPECT_FALSE(read_graph_readiness(R"({"metadata":{"generation":1}})")->done());
  EXPECT_FALSE(read_graph_readiness(R"({"status":{}})"));
}

}  // namespace
}  // namespace kvist::deploy::dynamo_graph_test

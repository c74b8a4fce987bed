#include "kvist/deploy/local_deployer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "deploy/fake_service.h"
#include "deploy/scratch_folder.h"
#include "kvist/spec/files.h"

namespace kvist::deploy::local_deployer_test {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

class LocalDeployerTest : public testing::Test {
 protected:
  static Until soon() { return Until::after(std::chrono::seconds(100), {}); }
  /// Long enough for one check, also on a busy machine.
  static Until at_once() { return Until::after(std::chrono::seconds(1), {}); }

  /// Children that report ready on the fake service's port and then do nothing.
  LocalDeployerOptions options(const std::string& before_ready = "") {
    const std::string body = "echo $$ >> " + folder_.path("pids") + "\n" + before_ready +
                             "\necho \"ready http=" + std::to_string(service_.port()) +
                             " admin=" + std::to_string(service_.port()) +
                             " kv_events=7001 kv_replay=7002\"; exec sleep 1000\n";
    return {.run_directory = folder_.path("run/one"),
            .executable = folder_.script("kvist.sh", body),
            .stop_timeout = std::chrono::seconds(10)};
  }

  static spec::DeploymentSpec one_worker() {
    spec::DeploymentSpec deployment;
    deployment.workers.resize(1);
    deployment.workers[0].name = "w-0";
    return deployment;
  }

  std::vector<pid_t> pids() const {
    std::istringstream text(folder_.read("pids"));
    std::vector<pid_t> result;
    for (pid_t pid = 0; text >> pid;) result.push_back(pid);
    return result;
  }

  ScratchFolder folder_;
  FakeService service_;
};

template <class T>
std::string message(const Result<T>& result) {
  return result ? "no error" : result.error().message;
}

TEST_F(LocalDeployerTest, StartsWorkersThenTheGatewayWithTheirAddresses) {
  LocalDeployer deployer(options());
  auto deployment = one_worker();
  deployment.gateway.mode = spec::RoutingMode::kKv;
  ASSERT_EQ(message(deployer.apply(deployment, soon())), "no error");

  const auto worker = spec::load_worker(folder_.path("run/one/w-0.yaml"));
  ASSERT_TRUE(worker.has_value()) << worker.error().message;
  deployment.workers[0].drain_timeout = std::chrono::seconds(5);  // somebody waits for the end
  EXPECT_EQ(*worker, deployment.workers[0]);
  auto expected = deployment.gateway;
  expected.drain_timeout = std::chrono::seconds(5);
  expected.workers = {{"w-0", service_.url(), "tcp://127.0.0.1:7001", "tcp://127.0.0.1:7002"}};
  const auto gateway = spec::load_gateway(folder_.path("run/one/gateway.yaml"));
  ASSERT_TRUE(gateway.has_value()) << gateway.error().message;
  EXPECT_EQ(*gateway, expected);

  EXPECT_EQ(deployer.addresses().gateway.url, service_.url());
  ASSERT_EQ(deployer.addresses().workers.size(), 1U);
  EXPECT_EQ(deployer.addresses().workers[0].name, "w-0");
}

TEST_F(LocalDeployerTest, StopEndsEveryChild) {
  LocalDeployer deployer(options());
  ASSERT_TRUE(deployer.apply(one_worker(), soon()).has_value());
  const auto started = pids();
  ASSERT_EQ(started.size(), 2U);
  for (const pid_t pid : started) EXPECT_EQ(::kill(pid, 0), 0);
  deployer.stop();
  for (const pid_t pid : started) EXPECT_EQ(::kill(pid, 0), -1);
  EXPECT_THAT(message(deployer.collect()), HasSubstr("no deployment is running"));
  deployer.stop();
}

TEST_F(LocalDeployerTest, AChildThatDiesEarlyIsQuotedAndNothingIsLeft) {
  LocalDeployer deployer(options("if [ $1 = gateway ]; then echo 'port is taken' >&2; exit 1; fi"));
  const auto started = deployer.apply(one_worker(), soon());
  EXPECT_THAT(message(started), AllOf(HasSubstr("gateway"), HasSubstr("exit status 1"), HasSubstr("port is taken")));
  for (const pid_t pid : pids()) EXPECT_EQ(::kill(pid, 0), -1);
}

TEST_F(LocalDeployerTest, AnUnexpectedFirstLineIsRefused) {
  LocalDeployer deployer(options("echo hello"));
  EXPECT_THAT(message(deployer.apply(one_worker(), soon())), AllOf(HasSubstr("w-0"), HasSubstr("got \"hello\"")));
}

TEST_F(LocalDeployerTest, ReadyMeansTokensPassedThroughEveryPartAndLeftNoTrace) {
  service_.change([](FakeState& s) { s.refused_resets = 2; });
  LocalDeployer deployer(options());
  ASSERT_TRUE(deployer.apply(one_worker(), soon()).has_value());
  ASSERT_EQ(message(deployer.await_ready(soon())), "no error");
  EXPECT_THAT(service_.calls(),
              ElementsAre("POST /v1/chat/completions", "GET /admin/status", "POST /v1/chat/completions",
                          "POST /reset_prefix_cache", "POST /reset_prefix_cache", "POST /reset_prefix_cache",
                          "GET /admin/status"));
}

TEST_F(LocalDeployerTest, NotReadyNamesWhatIsMissing) {
  LocalDeployer deployer(options());
  ASSERT_TRUE(deployer.apply(one_worker(), soon()).has_value());
  service_.change([](FakeState& s) { s.tokens = 0; });
  EXPECT_THAT(message(deployer.await_ready(at_once())), AllOf(HasSubstr("w-0"), HasSubstr("without a token")));
  service_.change([](FakeState& s) { s.tokens = 1, s.healthy = false; });
  EXPECT_THAT(message(deployer.await_ready(at_once())), HasSubstr("sees w-0 as not healthy"));
}

TEST_F(LocalDeployerTest, ADeathWhileWaitingEndsTheWait) {
  LocalDeployer deployer(options());
  ASSERT_TRUE(deployer.apply(one_worker(), soon()).has_value());
  service_.change([](FakeState& s) { s.healthy = false; });
  ASSERT_EQ(::kill(pids().at(0), SIGKILL), 0);
  const auto ready = deployer.await_ready(soon());
  ASSERT_FALSE(ready.has_value());
  EXPECT_EQ(ready.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(ready.error().message, AllOf(HasSubstr("w-0"), HasSubstr("signal 9")));
  EXPECT_FALSE(deployer.check_alive().has_value());
}

TEST_F(LocalDeployerTest, IdleIsProvenInGatewayAndWorkers) {
  LocalDeployer deployer(options());
  ASSERT_TRUE(deployer.apply(one_worker(), soon()).has_value());
  EXPECT_EQ(message(deployer.await_idle(soon())), "no error");
  service_.change([](FakeState& s) { s.in_flight = 3; });
  EXPECT_THAT(message(deployer.await_idle(at_once())), HasSubstr("3 requests in flight in the gateway"));
  service_.change([](FakeState& s) { s.in_flight = 0, s.running = 2; });
  EXPECT_THAT(message(deployer.await_idle(at_once())), HasSubstr("w-0 has 2 requests running"));
}

TEST_F(LocalDeployerTest, ARefusedModeIsAnError) {
  LocalDeployer deployer(options());
  ASSERT_TRUE(deployer.apply(one_worker(), soon()).has_value());
  EXPECT_EQ(message(deployer.set_routing_mode(spec::RoutingMode::kKv)), "no error");
  EXPECT_THAT(service_.calls(), Contains("PUT /admin/router_mode"));
  service_.change([](FakeState& s) { s.obeys_mode = false; });
  EXPECT_THAT(message(deployer.set_routing_mode(spec::RoutingMode::kRandom)), HasSubstr("routes in mode kv"));
}

TEST_F(LocalDeployerTest, CollectsTheWorkersCounters) {
  LocalDeployer deployer(options());
  ASSERT_TRUE(deployer.apply(one_worker(), soon()).has_value());
  const auto metrics = deployer.collect();
  ASSERT_TRUE(metrics.has_value()) << metrics.error().message;
  ASSERT_EQ(metrics->size(), 1U);
  EXPECT_EQ(metrics->front().worker, "w-0");
  EXPECT_EQ(metrics->front().prefix_hit_tokens, 900);
  EXPECT_EQ(metrics->front().process_start_time_s, 1.5e9);
}

}  // namespace
}  // namespace kvist::deploy::local_deployer_test

// A graph of Dynamo that is switched, at an API server of the test's own.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "deploy/scratch_folder.h"
#include "kvist/deploy/dynamo_target.h"
#include "kvist/net/event_loop.h"
#include "kvist/net/http_server.h"

namespace kvist::deploy::dynamo_target_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// Frontend and API server at once. A graph whose mode has changed is ready after a few looks at it.
class FakeCluster {
 public:
  FakeCluster() {
    std::promise<std::uint16_t> port;
    thread_ = std::thread([this, &port] { serve(port); });
    port_ = port.get_future().get();
  }
  ~FakeCluster() {
    loop_.stop();
    thread_.join();
  }
  FakeCluster(const FakeCluster&) = delete;
  FakeCluster& operator=(const FakeCluster&) = delete;

  [[nodiscard]] std::string url() const { return fmt::format("http://127.0.0.1:{}", port_); }
  [[nodiscard]] std::vector<std::string> modes() {
    const std::lock_guard lock(mutex_);
    return modes_;
  }
  [[nodiscard]] int answers() {
    const std::lock_guard lock(mutex_);
    return answers_;
  }
  void refuse(int status, std::string body) {
    const std::lock_guard lock(mutex_);
    refusals_.emplace_back(status, std::move(body));
  }
  void fail_next() {
    const std::lock_guard lock(mutex_);
    fails_ = true;
  }

 private:
  void serve(std::promise<std::uint16_t>& port) {
    auto server = net::HttpServer::listen(loop_, {}, [this](const net::HttpRequest& request, const auto& exchange) {
      exchange->respond(answer(request));
    });
    ASSERT_TRUE(server.has_value());
    port.set_value((*server)->port());
    loop_.run();
  }

  net::HttpResponse answer(const net::HttpRequest& request) {
    const std::lock_guard lock(mutex_);
    net::HttpResponse response;
    const std::string graph = "/apis/nvidia.com/v1beta1/namespaces/llm/dynamographdeployments/g";
    if (request.target == "/v1/chat/completions") {
      ++answers_;
      response.body = R"({"choices":[]})";
    } else if (request.path() != graph || request.headers.find("Authorization") != "Bearer secret") {
      response.status = 404;
    } else if (request.method == "GET") {
      response.body = object(looks_left_-- <= 0);
    } else if (!refusals_.empty()) {
      response.status = refusals_.front().first;
      response.body = refusals_.front().second;
      refusals_.erase(refusals_.begin());
    } else {
      take(request);
      response.body = object(false);
    }
    return response;
  }

  void take(const net::HttpRequest& request) {
    EXPECT_EQ(request.method, "PATCH");
    EXPECT_THAT(request.target, HasSubstr("?fieldManager=kvist&force=false"));
    const std::string begin = R"("DYN_ROUTER_MODE","value":")";
    const std::size_t at = request.body.find(begin) + begin.size();
    const std::string mode = request.body.substr(at, request.body.find('"', at) - at);
    if (!modes_.empty() && modes_.back() == mode) return;
    modes_.push_back(mode);
    looks_left_ = 2;
  }

  [[nodiscard]] std::string object(bool ready) const {
    const std::size_t generation = modes_.size();
    return fmt::format(
        R"({{"metadata":{{"generation":{}}},"status":{{"observedGeneration":{},"state":"{}","conditions":[)"
        R"({{"type":"Ready","status":"{}","reason":"pods_not_ready","message":"no GPU"}}]}}}})",
        generation, ready ? generation : generation - 1, fails_ ? "failed" : "pending",
        ready && !fails_ ? "True" : "False");
  }

  std::mutex mutex_;
  std::vector<std::string> modes_;
  std::vector<std::pair<int, std::string>> refusals_;
  int answers_ = 0;
  int looks_left_ = 0;
  bool fails_ = false;
  net::EventLoop loop_;
  std::thread thread_;
  std::uint16_t port_ = 0;
};

class DynamoTargetTest : public testing::Test {
 protected:
  DynamoTargetTest() {
    std::ofstream(folder_.path("config")) << fmt::format(
        "current-context: c\ncontexts: [{{name: c, context: {{cluster: k, user: u, namespace: llm}}}}]\n"
        "clusters: [{{name: k, cluster: {{server: '{}'}}}}]\nusers: [{{name: u, user: {{token: secret}}}}]\n",
        cluster_.url());
    auto made = DynamoTarget::create(
        {.url = cluster_.url(),
         .model = "m",
         .dynamo = spec::DynamoTargetSpec{.name = "g", .kubeconfig = folder_.path("config"), .warm_up_requests = 3}});
    EXPECT_TRUE(made) << (made ? "" : made.error().message);
    if (made) target_ = *std::move(made);
  }

  static Until soon() { return Until::after(std::chrono::seconds(60), {}); }
  [[nodiscard]] Result<void> enter(spec::RoutingMode mode) {
    return target_->enter({.arm = mode, .mode = mode}, soon());
  }
  [[nodiscard]] Result<void> apply(spec::RoutingMode mode) {
    spec::DeploymentSpec deployment;
    deployment.gateway.mode = mode;
    return target_->apply(deployment, soon());
  }

  FakeCluster cluster_;
  ScratchFolder folder_;
  std::unique_ptr<DynamoTarget> target_;
};

TEST_F(DynamoTargetTest, DeploysOnceForEachModeAndWarmsUp) {
  ASSERT_TRUE(apply(spec::RoutingMode::kRoundRobin));
  EXPECT_EQ(cluster_.answers(), 3) << "the warm-up";
  ASSERT_TRUE(enter(spec::RoutingMode::kRoundRobin));
  EXPECT_EQ(target_->redeployments(), 1);
  ASSERT_TRUE(enter(spec::RoutingMode::kKv));
  ASSERT_TRUE(enter(spec::RoutingMode::kDynamo).has_value());
  EXPECT_THAT(cluster_.modes(), ElementsAre("round-robin", "kv")) << "both are Dynamo's kv";
  EXPECT_EQ(target_->redeployments(), 2);
}

TEST_F(DynamoTargetTest, AsksAgainWhenTheServerSaysSo) {
  cluster_.refuse(
      429, R"({"kind":"Status","code":429,"message":"storage is (re)initializing","details":{"retryAfterSeconds":1}})");
  ASSERT_TRUE(apply(spec::RoutingMode::kKv));
  EXPECT_THAT(cluster_.modes(), ElementsAre("kv"));
}

TEST_F(DynamoTargetTest, AConflictNamesFieldAndOwner) {
  cluster_.refuse(409, R"({"kind":"Status","code":409,"message":"Apply failed","details":{"causes":[)"
                       R"({"reason":"FieldManagerConflict","message":"conflict with \"helm\"","field":".spec.x"}]}})");
  const auto refused = apply(spec::RoutingMode::kKv);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(refused.error().message, HasSubstr("field_manager_conflict (409)"));
  EXPECT_THAT(refused.error().message, HasSubstr(".spec.x: conflict with \"helm\""));
  EXPECT_THAT(refused.error().message, HasSubstr("target.dynamo.force"));
  EXPECT_THAT(cluster_.modes(), IsEmpty());
}

TEST_F(DynamoTargetTest, AGraphThatHasFailedEndsTheWait) {
  cluster_.fail_next();
  const auto failed = apply(spec::RoutingMode::kKv);
  ASSERT_FALSE(failed);
  EXPECT_THAT(failed.error().message, HasSubstr("has failed: generation 1 of 1, pods_not_ready no GPU"));
}

TEST_F(DynamoTargetTest, RefusesAModeOfWhichDynamoKnowsNothing) {
  const auto refused = apply(spec::RoutingMode::kSession);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnsupported);
}

}  // namespace
}  // namespace kvist::deploy::dynamo_target_test

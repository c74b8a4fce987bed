// For tests: a deployer that starts nothing, and the server behind its address that answers chats.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "kvist/deploy/deployer.h"
#include "kvist/net/event_loop.h"
#include "kvist/net/http_server.h"
#include "kvist/openai/codec.h"

namespace kvist::sweep {

enum class Behaviour { kAnswers, kRefuses, kKnowsNoModel, kNeverEnds };

/// Streams two tokens per chat, or misbehaves as configured, on its own loop and thread.
class FakeChatServer {
 public:
  explicit FakeChatServer(Behaviour behaviour) : behaviour_(behaviour) {
    std::promise<std::uint16_t> port;
    thread_ = std::thread([this, &port] { serve(port); });
    port_ = port.get_future().get();
  }
  ~FakeChatServer() {
    loop_.stop();
    thread_.join();
  }
  FakeChatServer(const FakeChatServer&) = delete;
  FakeChatServer& operator=(const FakeChatServer&) = delete;

  [[nodiscard]] std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }

 private:
  void serve(std::promise<std::uint16_t>& port) {
    std::vector<std::shared_ptr<net::HttpExchange>> open;  // streams that never end
    auto server = net::HttpServer::listen(loop_, {}, [&](const net::HttpRequest&, const auto& exchange) {
      answer(*exchange);
      if (behaviour_ == Behaviour::kNeverEnds) open.push_back(exchange);
    });
    ASSERT_TRUE(server.has_value());
    port.set_value((*server)->port());
    loop_.run();
  }

  void answer(net::HttpExchange& exchange) const {
    if (behaviour_ == Behaviour::kRefuses) {
      net::HttpResponse response;
      response.status = 500;
      response.body = R"({"error":{"message":"out of order","type":"server_error"}})";
      return exchange.respond(std::move(response));
    }
    if (behaviour_ == Behaviour::kKnowsNoModel) {
      return exchange.respond({.status = 404, .headers = {}, .body = R"({"error":{"message":"no model m"}})"});
    }
    net::Headers headers;
    headers.add("Content-Type", "text/event-stream");
    exchange.begin_stream(200, std::move(headers));
    const openai::AnswerHead head{.id = "chatcmpl-1", .model = "m", .created = 1, .chat = true};
    const auto send = [&](const std::string& json) { exchange.write("data: " + json + "\n\n"); };
    send(openai::text_chunk(head, 0, "a"));
    if (behaviour_ == Behaviour::kNeverEnds) return;
    send(openai::text_chunk(head, 0, "b"));
    send(openai::finish_chunk(head, 0, "stop"));
    send(openai::usage_chunk(head, {.prompt_tokens = 100, .completion_tokens = 2, .cached_tokens = 64}));
    exchange.write("data: [DONE]\n\n");
    exchange.end_stream();
  }

  Behaviour behaviour_;
  net::EventLoop loop_;
  std::thread thread_;
  std::uint16_t port_ = 0;
};

/// The calls of a FakeDeployer, and its scripted answers.
struct DeployerScript {
  std::vector<std::string> calls;  // without check_alive
  int collects = 0;
  int collect_that_fails = 0;   // number of the collect() that fails; 0: none
  int dies_after_collects = 0;  // check_alive() fails from then on; 0: never
};

class FakeDeployer final : public deploy::Deployer {
 public:
  FakeDeployer(DeployerScript& script, const std::string& url) : script_(script) {
    addresses_.models = {"m"};
    addresses_.gateway = {.name = "gateway", .url = url, .admin = url};
    addresses_.workers = {{.name = "w-0", .url = url, .admin = url}};
  }

  Result<void> apply(const spec::DeploymentSpec& deployment, const deploy::Until& until) override {
    script_.calls.push_back("apply " + std::string(spec::to_string(deployment.gateway.mode)));
    if (until.stop.stop_requested()) return fail(ErrorCode::kCancelled, "interrupted");
    return {};
  }
  Result<void> await_ready(const deploy::Until& /*until*/) override { return noted("await_ready"); }
  Result<void> set_routing_mode(spec::RoutingMode mode) override {
    return noted("set_routing_mode " + std::string(spec::to_string(mode)));
  }
  Result<void> empty_caches(const deploy::Until& /*until*/) override { return noted("empty_caches"); }
  Result<std::vector<deploy::WorkerMetrics>> collect() override {
    script_.calls.emplace_back("collect");
    if (++script_.collects == script_.collect_that_fails) return fail(ErrorCode::kUnavailable, "too busy");
    deploy::WorkerMetrics metrics;
    metrics.worker = "w-0";
    metrics.prefix_query_tokens = 100.0 * script_.collects;
    metrics.prefix_hit_tokens = 64.0 * script_.collects;
    return std::vector{metrics};
  }
  Result<void> await_idle(const deploy::Until& /*until*/) override { return noted("await_idle"); }
  Result<void> check_alive() override {
    if (script_.dies_after_collects == 0 || script_.collects < script_.dies_after_collects) return {};
    return fail(ErrorCode::kUnavailable, "w-0 (process 7) ended with signal 9");
  }
  [[nodiscard]] const deploy::Addresses& addresses() const override { return addresses_; }
  void stop() override { script_.calls.emplace_back("stop"); }

 private:
  Result<void> noted(std::string call) {
    script_.calls.push_back(std::move(call));
    return {};
  }

  DeployerScript& script_;
  deploy::Addresses addresses_;
};

}  // namespace kvist::sweep

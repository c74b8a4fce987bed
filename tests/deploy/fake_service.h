// For tests: one HTTP server that answers as a worker and as a gateway, on its own thread.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "kvist/net/event_loop.h"
#include "kvist/net/http_server.h"

namespace kvist::deploy {

/// The answers, which may be changed while it runs.
struct FakeState {
  std::mutex mutex;
  bool healthy = true;
  int tokens = 1;          // completion tokens of each answer
  int refused_resets = 0;  // resets answered 503 before one succeeds
  int in_flight = 0;       // of the gateway
  int running = 0;         // of the workers
  int indexed_blocks = 4;  // until a reset
  bool obeys_mode = true;
  std::string mode = "round_robin";
  std::vector<std::string> calls;  // "METHOD path"
};

class FakeService {
 public:
  FakeService() {
    std::promise<std::uint16_t> port;
    thread_ = std::thread([this, &port] { serve(port); });
    port_ = port.get_future().get();
  }
  ~FakeService() {
    loop_.stop();
    thread_.join();
  }
  FakeService(const FakeService&) = delete;
  FakeService& operator=(const FakeService&) = delete;

  [[nodiscard]] std::uint16_t port() const { return port_; }
  [[nodiscard]] std::string url() const { return fmt::format("http://127.0.0.1:{}", port_); }

  template <class Change>
  void change(Change change) {
    const std::lock_guard lock(state_.mutex);
    change(state_);
  }
  [[nodiscard]] std::vector<std::string> calls() {
    const std::lock_guard lock(state_.mutex);
    return state_.calls;
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
    const std::lock_guard lock(state_.mutex);
    state_.calls.push_back(request.method + " " + request.target);
    net::HttpResponse response;
    if (request.target == "/v1/chat/completions") {
      response.body = fmt::format(
          R"({{"id":"x","object":"chat.completion","created":1,"model":"m","choices":[{{"index":0,"message":{{"role":"assistant","content":"a"}},"finish_reason":"length"}}],"usage":{{"prompt_tokens":9,"completion_tokens":{},"total_tokens":10}}}})",
          state_.tokens);
    } else if (request.target == "/admin/status") {
      response.body = fmt::format(
          R"({{"mode":"{}","in_flight":{},"later":1,"workers":[{{"name":"w-0","url":"u","healthy":{},"in_flight":0,"indexed_blocks":{},"index_exact":true}}]}})",
          state_.mode, state_.in_flight, state_.healthy, state_.indexed_blocks);
    } else if (request.target == "/admin/router_mode") {
      const auto from = request.body.rfind(":\"") + 2;
      if (state_.obeys_mode) state_.mode = request.body.substr(from, request.body.rfind('"') - from);
    } else if (request.target == "/reset_prefix_cache") {
      if (state_.refused_resets-- > 0) {
        response.status = 503;
      } else {
        state_.indexed_blocks = 0;
      }
    } else if (request.target == "/metrics") {
      response.body = metrics();
    } else {
      response.status = 404;
    }
    return response;
  }

  [[nodiscard]] std::string metrics() const {
    return fmt::format(
        "# TYPE vllm:num_requests_running gauge\n"
        "vllm:num_requests_running{{model_name=\"m\"}} {}\n"
        "vllm:num_requests_waiting{{model_name=\"m\"}} 0\n"
        "vllm:kv_cache_usage_perc{{model_name=\"m\"}} 0.25\n"
        "vllm:prefix_cache_queries_total{{model_name=\"m\"}} 1000\n"
        "vllm:prefix_cache_hits_total{{model_name=\"m\"}} 900\n"
        "vllm:prompt_tokens_total{{model_name=\"m\"}} 1001\n"
        "vllm:generation_tokens_total{{model_name=\"m\"}} 55\n"
        "vllm:num_preemptions_total{{model_name=\"m\"}} 2\n"
        "kvist_worker_prefilled_tokens_total{{model_name=\"m\"}} 101\n"
        "process_start_time_seconds 1.5e9\n",
        state_.running);
  }

  FakeState state_;
  net::EventLoop loop_;
  std::thread thread_;
  std::uint16_t port_ = 0;
};

}  // namespace kvist::deploy

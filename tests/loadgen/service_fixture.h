// A load generator against a scripted server on 127.0.0.1, both on one loop with a thread of its own.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "kvist/loadgen/service.h"
#include "kvist/net/event_loop.h"
#include "kvist/net/http_client.h"
#include "kvist/net/http_server.h"
#include "kvist/openai/codec.h"

namespace kvist::loadgen {

/// The requests that the scripted server got, and how it answers. Threads: the loop's.
class ScriptedServer {
 public:
  using Script = std::function<void(std::size_t index, std::shared_ptr<net::HttpExchange> exchange)>;

  ScriptedServer(net::EventLoop& loop, Script script) : script_(std::move(script)) {
    server_ = std::move(net::HttpServer::listen(loop, {}, [this](net::HttpRequest request, auto exchange) {
                          exchange->on_client_gone([this] { ++clients_gone_; });
                          requests_.push_back(std::move(request));
                          open_.push_back(exchange);
                          script_(requests_.size() - 1, exchange);
                        }).value());
  }

  [[nodiscard]] std::string url() const { return "http://127.0.0.1:" + std::to_string(server_->port()); }
  [[nodiscard]] const std::vector<net::HttpRequest>& requests() const { return requests_; }
  [[nodiscard]] std::size_t clients_gone() const { return clients_gone_; }
  [[nodiscard]] net::HttpExchange& exchange(std::size_t index) { return *open_[index]; }
  /// Releases the server's reference to an answer under way, which breaks the connection.
  void drop(std::size_t index) { open_[index].reset(); }

 private:
  Script script_;
  std::vector<net::HttpRequest> requests_;
  std::vector<std::shared_ptr<net::HttpExchange>> open_;
  std::size_t clients_gone_ = 0;
  std::unique_ptr<net::HttpServer> server_;
};

inline std::string sse(const std::string& json) {
  return "data: " + json + "\n\n";
}

/// The head of a stream, as from the gateway.
inline void begin_stream(net::HttpExchange& exchange, std::string type = "text/event-stream") {
  net::Headers headers;
  headers.add("Content-Type", std::move(type));
  headers.add("x-kvist-worker", "worker-7");
  headers.add("x-kvist-predicted-cached-tokens", "96");
  exchange.begin_stream(200, std::move(headers));
}

inline const openai::AnswerHead& answer_head() {
  static const openai::AnswerHead head{.id = "chatcmpl-1", .model = "m", .created = 1, .chat = true};
  return head;
}

/// A whole good answer: role, one chunk per part, finish, usage (100 prompt tokens, 64 of them cached), [DONE].
inline void answer(net::HttpExchange& exchange, const std::vector<std::string>& parts, bool with_usage = true) {
  begin_stream(exchange);
  exchange.write(sse(openai::role_chunk(answer_head(), 0)));
  for (const std::string& part : parts) exchange.write(sse(openai::text_chunk(answer_head(), 0, part)));
  exchange.write(sse(openai::finish_chunk(answer_head(), 0, "stop")));
  const openai::Usage usage{
      .prompt_tokens = 100, .completion_tokens = static_cast<std::uint32_t>(parts.size()) + 1, .cached_tokens = 64};
  if (with_usage) exchange.write(sse(openai::usage_chunk(answer_head(), usage)));
  exchange.write("data: [DONE]\n\n");
  exchange.end_stream();
}

class ServiceFixture : public ::testing::Test {
 protected:
  void SetUp() override {
    options_.model = "test-model";
    options_.workload.starter_tokens_min = 40;
    options_.workload.starter_tokens_max = 60;
    options_.workload.turns_min = options_.workload.turns_max = 1;
    options_.workload.target_rps = 200;
    options_.workload.max_tokens = 33;
    thread_ = std::thread([this] { loop_.run(); });
  }

  void TearDown() override {
    on_loop([this] {
      service_.reset();
      server_.reset();
    });
    loop_.stop();
    thread_.join();
  }

  /// Runs something on the loop's thread and returns its result.
  template <class Work>
  std::invoke_result_t<Work> on_loop(Work work) {
    auto task = std::make_shared<std::packaged_task<std::invoke_result_t<Work>()>>(std::move(work));
    auto result = task->get_future();
    loop_.post([task] { (*task)(); });
    return result.get();
  }

  /// Waits until a condition, asked on the loop's thread, holds; fails the test after 100 s.
  void await(const std::function<bool()>& condition) {
    for (int i = 0; i < 20'000; ++i) {
      if (on_loop(condition)) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    FAIL() << "the condition never held";
  }

  /// Starts server and service; `script` answers each request.
  void serve(ScriptedServer::Script script) {
    on_loop([&] {
      server_ = std::make_unique<ScriptedServer>(loop_, std::move(script));
      if (options_.target_url.empty()) options_.target_url = server_->url();
      service_ = std::move(Service::create(loop_, options_).value());
    });
  }

  void start(std::uint32_t concurrency, std::uint64_t seed = 1) {
    const Result<void> started = on_loop([&] { return service_->start(concurrency, seed); });
    ASSERT_TRUE(started.has_value()) << started.error().message;
  }

  /// Stops, waits for the end, and checks that nothing is in flight when `stopped` is called.
  void stop(bool drain) {
    std::promise<std::uint32_t> left;
    on_loop([&] { service_->stop(drain, [&] { left.set_value(service_->in_flight()); }); });
    auto done = left.get_future();
    ASSERT_EQ(done.wait_for(std::chrono::seconds(100)), std::future_status::ready);
    EXPECT_EQ(done.get(), 0U);
  }

  std::vector<workload::TurnSample> take_samples() {
    return on_loop([this] { return service_->take_samples(); });
  }
  std::size_t requests_seen() {
    return on_loop([this] { return server_->requests().size(); });
  }

  net::HttpResponse call(const std::string& method, const std::string& path, std::string body = {}) {
    const std::string url = "http://127.0.0.1:" + std::to_string(on_loop([this] { return service_->port(); })) + path;
    net::Headers headers;
    if (method != "GET") headers.add("Content-Type", "application/json");
    return net::fetch_blocking(method, url, std::move(body), std::chrono::seconds(100), std::move(headers)).value();
  }

  net::EventLoop loop_;
  std::thread thread_;
  ServiceOptions options_;
  std::unique_ptr<ScriptedServer> server_;
  std::unique_ptr<Service> service_;
};

}  // namespace kvist::loadgen

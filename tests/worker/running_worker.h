// A worker on its own thread, and clients that talk to it over real sockets.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "kvist/net/event_loop.h"
#include "kvist/net/http_client.h"
#include "kvist/net/sse.h"
#include "kvist/openai/codec.h"
#include "kvist/telemetry/exposition.h"
#include "kvist/worker/service.h"

namespace kvist::worker {

/// Fast and small: a step takes some 20 us, an answer some 40 tokens.
inline spec::WorkerSpec fast_spec() {
  spec::WorkerSpec spec;
  spec.model = "test-model";
  spec.block_size = 16;
  spec.kv_blocks = 2'000;
  spec.max_batch_size = 4;
  spec.max_model_len = 2'048;
  spec.time_scale = 1'000;
  spec.output_length = {.mean_tokens = 40, .standard_deviation_tokens = 5};
  return spec;
}

/// Steps of 20 ms and endless answers: requests run until they are cancelled.
inline spec::WorkerSpec slow_spec() {
  spec::WorkerSpec spec = fast_spec();
  spec.time_scale = 1;
  spec.max_batch_size = 2;
  return spec;
}

class RunningWorker {
 public:
  explicit RunningWorker(spec::WorkerSpec spec = fast_spec()) {
    Result<std::unique_ptr<Service>> made = Service::create(loop_, std::move(spec));
    if (!made) throw std::runtime_error(made.error().message);
    service_ = std::move(*made);
    thread_ = std::thread([this] { loop_.run(); });
  }
  ~RunningWorker() {
    loop_.post([this] {
      service_.reset();
      loop_.stop();
    });
    thread_.join();
  }
  RunningWorker(const RunningWorker&) = delete;
  RunningWorker& operator=(const RunningWorker&) = delete;

  [[nodiscard]] Service& service() { return *service_; }
  [[nodiscard]] std::uint16_t port() const { return service_->port(); }
  void shut_down(std::function<void()> done = {}) {
    loop_.post([this, done = std::move(done)] { service_->shut_down(done); });
  }
  void reload() {
    loop_.post([this] { service_->reload(); });
  }
  void end_now() {
    loop_.post([this] { service_->end_now(); });
  }

  net::HttpResponse call(const std::string& method, const std::string& path, std::string body = "",
                         net::Headers headers = {}) {
    const bool admin = path.starts_with("/debug/") || path == "/reset_prefix_cache";
    if (admin && !headers.find("Content-Type")) headers.add("Content-Type", "application/json");
    const std::string url = fmt::format("http://127.0.0.1:{}{}", admin ? service_->admin_port() : port(), path);
    Result<net::HttpResponse> response =
        net::fetch_blocking(method, url, std::move(body), std::chrono::seconds(100), std::move(headers));
    if (!response) throw std::runtime_error(response.error().message);
    return std::move(*response);
  }
  net::HttpResponse post(const std::string& path, std::string body) { return call("POST", path, std::move(body)); }
  net::HttpResponse get(const std::string& path) { return call("GET", path); }

  double metric(std::string_view name) {
    const std::string page = get("/metrics").body;
    const Result<telemetry::MetricSamples> samples = telemetry::MetricSamples::parse(page);
    if (!samples) throw std::runtime_error(samples.error().message);
    return samples->sum(name).value_or(-1);
  }

  /// Waits until a metric has a value; false when it does not within 100 s.
  [[nodiscard]] bool await_metric(std::string_view name, double value) {
    return await([&] { return metric(name) == value; });
  }

  [[nodiscard]] static bool await(const std::function<bool()>& condition) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(100);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return true;
  }

 private:
  net::EventLoop loop_;
  std::unique_ptr<Service> service_;
  std::thread thread_;
};

/// A stream's events, as texts.
inline std::vector<std::string> events_of(std::string_view body) {
  net::SseParser parser;
  EXPECT_TRUE(parser.feed(body));
  std::vector<std::string> events;
  net::SseParser::Event event;
  while (parser.next(event)) events.emplace_back(event.data);
  EXPECT_EQ(parser.rest(), "");
  return events;
}

/// A stream's combined content, as a client sees it.
struct ReadStream {
  std::string text;
  std::string finish_reason;
  std::optional<openai::Usage> usage;
  std::optional<std::string> error;
  int text_chunks = 0;
  bool role_first = false;
  bool done_last = false;
};

inline ReadStream read_stream(std::string_view body) {
  ReadStream read;
  const std::vector<std::string> events = events_of(body);
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (events[i] == "[DONE]") {
      read.done_last = i + 1 == events.size();
      continue;
    }
    const Result<openai::ChunkView> chunk = openai::parse_chunk(events[i]);
    EXPECT_TRUE(chunk) << events[i];
    if (!chunk) continue;
    if (i == 0) read.role_first = chunk->has_role && chunk->content.empty();
    if (!chunk->content.empty()) ++read.text_chunks;
    read.text += chunk->content;
    if (chunk->finish_reason) read.finish_reason = *chunk->finish_reason;
    if (chunk->usage) read.usage = chunk->usage;
    if (chunk->error) read.error = chunk->error;
  }
  return read;
}

/// A chat body; `fields` are added as they are.
inline std::string chat_body(std::string_view content, std::string_view fields = "") {
  return fmt::format(R"({{"model":"test-model","messages":[{{"role":"user","content":"{}"}}]{}{}}})", content,
                     fields.empty() ? "" : ",", fields);
}

inline std::string completion_body(std::string_view prompt, std::string_view fields = "") {
  return fmt::format(R"({{"model":"test-model","prompt":{}{}{}}})", prompt, fields.empty() ? "" : ",", fields);
}

}  // namespace kvist::worker

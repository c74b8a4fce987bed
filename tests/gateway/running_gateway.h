// A gateway on a thread of its own before fake workers, and the calls tests make at it.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "fake_worker.h"
#include "kvist/gateway/service.h"
#include "kvist/net/event_loop.h"
#include "kvist/net/http_client.h"
#include "kvist/telemetry/exposition.h"

namespace kvist::gateway {

inline constexpr std::uint32_t kBlockSize = 16;

/// The number of threads of gateways in tests: KVIST_TEST_GATEWAY_THREADS, or one.
inline std::uint32_t test_threads() {
  const char* const threads = std::getenv("KVIST_TEST_GATEWAY_THREADS");
  return threads == nullptr ? 1 : static_cast<std::uint32_t>(std::strtoul(threads, nullptr, 10));
}

/// Checks health once at the start and then not for an hour, so that only the test causes later events.
inline spec::GatewaySpec gateway_spec(const std::vector<const FakeWorker*>& workers) {
  spec::GatewaySpec spec;
  spec.model = "m";
  spec.block_size = kBlockSize;
  spec.health_interval = std::chrono::hours(1);
  spec.threads = test_threads();
  for (const FakeWorker* worker : workers) spec.workers.push_back(worker->upstream());
  return spec;
}

/// Polls until the condition holds; false when it does not within 100 s.
[[nodiscard]] inline bool await(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(100);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

class RunningGateway {
 public:
  explicit RunningGateway(spec::GatewaySpec spec, bool await_workers = true, SettingsFile file = {}) {
    ::unsetenv("KVIST_ROUTER_MODE");
    ::unsetenv("DYN_ROUTER_MODE");
    const std::size_t workers = spec.workers.size();
    auto made = Service::create(loop_, std::move(spec), std::move(file));
    if (!made) throw std::runtime_error(made.error().message);
    service_ = std::move(*made);
    port_ = service_->port();
    admin_port_ = service_->admin_port();
    thread_ = std::thread([this] { loop_.run(); });
    if (await_workers &&
        !await([&] { return metric("kvist_gateway_worker_healthy") == static_cast<double>(workers); })) {
      throw std::runtime_error("the workers did not become healthy");
    }
  }
  ~RunningGateway() {
    loop_.post([this] {
      service_.reset();
      loop_.stop();
    });
    thread_.join();
  }
  RunningGateway(const RunningGateway&) = delete;
  RunningGateway& operator=(const RunningGateway&) = delete;

  void shut_down(std::function<void()> done) {
    loop_.post([this, done = std::move(done)] { service_->shut_down(done); });
  }
  void end_now() {
    loop_.post([this] { service_->end_now(); });
  }

  [[nodiscard]] std::uint16_t port() const { return port_; }
  [[nodiscard]] std::string url() const { return fmt::format("http://127.0.0.1:{}", port_); }
  [[nodiscard]] std::string admin_url() const { return fmt::format("http://127.0.0.1:{}", admin_port_); }
  /// A call to the listener that has this path.
  net::HttpResponse call(const std::string& method, const std::string& path, std::string body = "",
                         net::Headers headers = {}) const {
    const bool admin = path.starts_with("/admin/") || path == "/metrics";
    if (admin && !headers.find("Content-Type")) headers.add("Content-Type", "application/json");
    auto response = net::fetch_blocking(method, (admin ? admin_url() : url()) + path, std::move(body),
                                        std::chrono::seconds(100), std::move(headers));
    if (!response) throw std::runtime_error(response.error().message);
    return std::move(*response);
  }
  net::HttpResponse get(const std::string& path) const { return call("GET", path); }
  net::HttpResponse chat(std::string body, net::Headers headers = {}) const {
    return call("POST", "/v1/chat/completions", std::move(body), std::move(headers));
  }

  /// Sum over all label sets; 0 if there are none.
  [[nodiscard]] double metric(std::string_view name) const { return metric(name, "", ""); }
  /// Sum over the samples with that label.
  [[nodiscard]] double metric(std::string_view name, std::string_view label, std::string_view value) const {
    const std::string page = get("/metrics").body;
    const auto samples = telemetry::MetricSamples::parse(page);
    if (!samples) throw std::runtime_error(samples.error().message);
    double sum = 0;
    for (const telemetry::MetricSample& sample : samples->samples()) {
      bool matches = sample.name == name && label.empty();
      for (const auto& [key, text] : sample.labels) {
        if (sample.name == name && key == label && text == value) matches = true;
      }
      if (matches) sum += sample.value;
    }
    return sum;
  }
  [[nodiscard]] double outcomes(std::string_view outcome) const {
    return metric("kvist_gateway_requests_total", "outcome", outcome);
  }
  [[nodiscard]] bool await_idle() const {
    return await([&] { return metric("kvist_gateway_in_flight") == 0; });
  }

 private:
  net::EventLoop loop_;
  std::unique_ptr<Service> service_;
  std::uint16_t port_ = 0;
  std::uint16_t admin_port_ = 0;
  std::thread thread_;
};

inline std::string chat_body(std::string_view content, std::string_view fields = R"("stream":true)") {
  return fmt::format(R"({{"model":"m","messages":[{{"role":"user","content":"{}"}}],{}}})", content, fields);
}

}  // namespace kvist::gateway

// A worker that a test scripts: an HTTP server on a thread of its own, and a publisher of KV events.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kvist/net/event_loop.h"
#include "kvist/net/http_server.h"
#include "kvist/net/zmq_publisher.h"
#include "kvist/spec/deployment.h"

namespace kvist::gateway {

/// An event of a stream that carries text.
inline std::string text_event(std::string_view text) {
  return fmt::format(R"(data: {{"id":"x","choices":[{{"index":0,"delta":{{"content":"{}"}}}}]}})", text) + "\n\n";
}
inline constexpr std::string_view kRoleEvent =
    "data: {\"id\":\"x\",\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n";
inline constexpr std::string_view kUsageEvent =
    "data: {\"id\":\"x\",\"choices\":[],\"usage\":{\"prompt_tokens\":50,\"completion_tokens\":2,"
    "\"prompt_tokens_details\":{\"cached_tokens\":32}}}\n\n";
inline constexpr std::string_view kDoneEvent = "data: [DONE]\n\n";

inline net::Headers stream_headers() {
  net::Headers headers;
  headers.add("Content-Type", "text/event-stream; charset=utf-8");
  return headers;
}

class FakeWorker {
 public:
  using Exchange = std::shared_ptr<net::HttpExchange>;
  /// Answers a POST; on the worker's thread.
  using Script = std::function<void(const net::HttpRequest& request, const Exchange& exchange)>;

  explicit FakeWorker(std::string name,
                      Script script = stream_of({kRoleEvent, text_event("hi"), kUsageEvent, kDoneEvent}))
      : name_(std::move(name)), script_(std::move(script)) {
    auto server = net::HttpServer::listen(loop_, {}, [this](net::HttpRequest request, const Exchange& exchange) {
      handle(std::move(request), exchange);
    });
    if (!server) throw std::runtime_error(server.error().message);
    server_ = std::move(*server);
    port_ = server_->port();
    auto publisher = net::ZmqPublisher::bind(
        {.endpoint = "tcp://127.0.0.1:0", .replay_endpoint = "tcp://127.0.0.1:0", .topic = "kv@fake@m"});
    if (!publisher) throw std::runtime_error(publisher.error().message);
    publisher_ = std::move(*publisher);
    thread_ = std::thread([this] { loop_.run(); });
  }
  ~FakeWorker() { stop(); }
  FakeWorker(const FakeWorker&) = delete;
  FakeWorker& operator=(const FakeWorker&) = delete;

  /// From here on connections to it are refused.
  void stop() {
    if (!thread_.joinable()) return;
    loop_.post([this] {
      held_.clear();
      server_.reset();
      loop_.stop();
    });
    thread_.join();
  }

  /// A script that streams these pieces and ends properly.
  static Script stream_of(const std::vector<std::string_view>& pieces) {
    std::vector<std::string> copies(pieces.begin(), pieces.end());
    return [copies](const net::HttpRequest&, const Exchange& exchange) {
      exchange->begin_stream(200, stream_headers());
      for (const std::string& piece : copies) exchange->write(piece);
      exchange->end_stream();
    };
  }
  /// A script that answers with a status and a JSON body.
  static Script answer_of(int status, std::string body) {
    return [status, body](const net::HttpRequest&, const Exchange& exchange) {
      net::HttpResponse response{.status = status, .headers = {}, .body = body};
      response.headers.add("Content-Type", "application/json");
      if (status == 503) response.headers.add("Retry-After", "7");
      exchange->respond(std::move(response));
    };
  }
  /// A script that never answers; left() counts the clients that gave up.
  Script silence() {
    return [this](const net::HttpRequest&, const Exchange& exchange) { hold(exchange); };
  }
  /// A script that streams pieces and then stays silent.
  Script stream_then_silence(std::vector<std::string> pieces) {
    return [this, pieces = std::move(pieces)](const net::HttpRequest&, const Exchange& exchange) {
      exchange->begin_stream(200, stream_headers());
      for (const std::string& piece : pieces) exchange->write(piece);
      hold(exchange);
    };
  }
  void set_script(Script script) {
    const std::lock_guard lock(mutex_);
    script_ = std::move(script);
  }
  /// Sets the answer of POST /tokenize, which is unknown otherwise.
  void set_tokenize(Script script) {
    const std::lock_guard lock(mutex_);
    tokenize_ = std::move(script);
  }
  /// Sets the answer of GET /v1/models, which has no list otherwise.
  void set_models(Script script) {
    const std::lock_guard lock(mutex_);
    models_ = std::move(script);
  }
  void set_metrics(std::string page) {
    const std::lock_guard lock(mutex_);
    metrics_ = std::move(page);
  }
  void set_health(int status) {
    const std::lock_guard lock(mutex_);
    health_ = status;
  }

  /// Ends all answers held by silence() or stream_then_silence() with these last bytes.
  void end_held(const std::string& last) {
    loop_.post([this, last] {
      for (const Exchange& exchange : held_) {
        exchange->write(last);
        exchange->end_stream();
      }
      held_.clear();
    });
  }

  [[nodiscard]] std::vector<net::HttpRequest> posts() const {
    const std::lock_guard lock(mutex_);
    return posts_;
  }
  /// How often GET of this path was asked for.
  [[nodiscard]] int gets(const std::string& path) const {
    const std::lock_guard lock(mutex_);
    const auto found = gets_.find(path);
    return found == gets_.end() ? 0 : found->second;
  }
  [[nodiscard]] int left() const {
    const std::lock_guard lock(mutex_);
    return left_;
  }
  [[nodiscard]] net::ZmqPublisher& publisher() { return *publisher_; }
  [[nodiscard]] spec::UpstreamSpec upstream() const {
    return {.name = name_,
            .url = fmt::format("http://127.0.0.1:{}", port_),
            .kv_events = fmt::format("tcp://127.0.0.1:{}", publisher_->port()),
            .kv_replay = fmt::format("tcp://127.0.0.1:{}", publisher_->replay_port())};
  }

 private:
  void handle(net::HttpRequest request, const Exchange& exchange) {
    std::unique_lock lock(mutex_);
    if (request.method == "GET") ++gets_[std::string(request.path())];
    if (request.method == "GET" && request.path() == "/v1/models" && models_) {
      const Script script = models_;
      lock.unlock();
      return script(request, exchange);
    }
    if (request.method == "GET") {
      const bool metrics = request.path() == "/metrics";
      net::HttpResponse response{.status = metrics ? 200 : health_, .headers = {}, .body = metrics ? metrics_ : "{}"};
      lock.unlock();
      return exchange->respond(std::move(response));
    }
    if (request.path() == "/tokenize" && !tokenize_) {
      lock.unlock();
      return exchange->respond({.status = 404, .headers = {}, .body = "{}"});
    }
    if (request.path() != "/tokenize") posts_.push_back(request);
    const Script script = request.path() == "/tokenize" ? tokenize_ : script_;
    lock.unlock();
    script(request, exchange);
  }

  void hold(const Exchange& exchange) {
    held_.push_back(exchange);
    exchange->on_client_gone([this] {
      const std::lock_guard lock(mutex_);
      ++left_;
    });
  }

  std::string name_;
  net::EventLoop loop_;
  std::unique_ptr<net::HttpServer> server_;
  std::unique_ptr<net::ZmqPublisher> publisher_;
  std::uint16_t port_ = 0;
  std::vector<Exchange> held_;  // worker's thread only

  mutable std::mutex mutex_;
  Script script_;
  Script tokenize_;
  Script models_;
  std::string metrics_ = "vllm:num_requests_running{model_name=\"m\"} 0\n";
  int health_ = 200;
  std::vector<net::HttpRequest> posts_;
  std::map<std::string, int> gets_;
  int left_ = 0;

  std::thread thread_;
};

}  // namespace kvist::gateway

// A client that reads a stream piece by piece, can leave, and can stop reading.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "kvist/net/event_loop.h"
#include "kvist/net/http_client.h"

namespace kvist::gateway {

class StreamingClient {
 public:
  StreamingClient(const std::string& base_url, std::string path, std::string body, bool paused = false,
                  net::Headers headers = {})
      : client_(loop_, {}) {
    net::HttpRequest request{
        .method = "POST", .target = std::move(path), .headers = std::move(headers), .body = std::move(body)};
    call_ = client_.start(base_url, std::move(request), std::chrono::seconds(60),
                          {.on_sent = {},
                           .on_head = [this](int status, const net::Headers&) { change([&] { status_ = status; }); },
                           .on_body = [this](std::string_view data, TimePoint) { change([&] { body_ += data; }); },
                           .on_end = [this](const net::CallTimes&) { change([&] { ended_ = true; }); },
                           .on_error = [this](const Error& error, bool) { change([&] { error_ = error; }); }});
    if (paused) call_->pause();
    thread_ = std::thread([this] { loop_.run(); });
  }
  ~StreamingClient() {
    leave();
    loop_.stop();
    thread_.join();
  }
  StreamingClient(const StreamingClient&) = delete;
  StreamingClient& operator=(const StreamingClient&) = delete;

  void leave() {
    loop_.post([this] { call_.reset(); });
  }
  void resume() {
    loop_.post([this] { call_->resume(); });
  }

  /// Waits until the body holds `text`; false after 100 s or when the answer is over without it.
  [[nodiscard]] bool await_text(std::string_view text) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(100), [&] { return body_.contains(text) || ended_ || error_; });
    return body_.contains(text);
  }
  /// Waits for the end, proper or not.
  [[nodiscard]] bool await_over() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(100), [&] { return ended_ || error_.has_value(); });
  }
  [[nodiscard]] int status() const {
    const std::lock_guard lock(mutex_);
    return status_;
  }
  [[nodiscard]] std::string body() const {
    const std::lock_guard lock(mutex_);
    return body_;
  }
  /// Ended properly, as far as the transport tells.
  [[nodiscard]] bool ended() const {
    const std::lock_guard lock(mutex_);
    return ended_;
  }

 private:
  template <class Change>
  void change(Change what) {
    const std::lock_guard lock(mutex_);
    what();
    changed_.notify_all();
  }

  net::EventLoop loop_;
  net::HttpClient client_;
  std::unique_ptr<net::HttpCall> call_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  int status_ = 0;
  std::string body_;
  bool ended_ = false;
  std::optional<Error> error_;
  std::thread thread_;
};

}  // namespace kvist::gateway

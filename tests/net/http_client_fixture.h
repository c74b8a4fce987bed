// A client under test, with a peer that sends exactly the bytes that the test gives it.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kvist/net/http_client.h"
#include "net/loop_thread.h"
#include "net/raw_socket.h"

namespace kvist::net {

/// The reports of one call. Threads: the loop's only, until the call has ended.
struct Seen {
  int heads = 0;
  int ends = 0;
  int errors = 0;
  int status = 0;
  Headers headers;
  std::string body;
  int pieces = 0;
  CallTimes times;
  Error error;
  bool answered = false;

  [[nodiscard]] bool over() const { return ends + errors > 0; }
  CallHandlers handlers() {
    CallHandlers h;
    h.on_head = [this](int code, const Headers& fields) {
      ++heads;
      status = code;
      headers = fields;
    };
    h.on_body = [this](std::string_view data, TimePoint) {
      ++pieces;
      body += data;
    };
    h.on_end = [this](const CallTimes& t) {
      ++ends;
      times = t;
    };
    h.on_error = [this](const Error& e, bool any) {
      ++errors;
      error = e;
      answered = any;
    };
    return h;
  }
};

inline HttpRequest get(std::string target = "/") {
  return {.method = "GET", .target = std::move(target), .headers = {}, .body = {}};
}
inline HttpRequest post(std::string body) {
  return {.method = "POST", .target = "/", .headers = {}, .body = std::move(body)};
}

class HttpClientTest : public testing::Test {
 protected:
  HttpClientTest() { make_client({}); }
  ~HttpClientTest() override {
    thread_.run([this] {
      calls_.clear();
      client_.reset();
    });
    thread_.stop();
  }

  void make_client(HttpClientOptions options) {
    thread_.run([&] { client_ = std::make_unique<HttpClient>(thread_.loop(), options); });
  }
  /// Starts a call and returns its index.
  std::size_t start(Seen& seen, HttpRequest request, Duration timeout = std::chrono::seconds(20),
                    std::string url = {}) {
    if (url.empty()) url = peer_.url();
    return thread_.run([&] {
      calls_.push_back(client_->start(url, std::move(request), timeout, seen.handlers()));
      EXPECT_FALSE(seen.over());
      return calls_.size() - 1;
    });
  }
  [[nodiscard]] bool wait_over(const Seen& seen) {
    return thread_.wait([&] { return seen.over(); });
  }
  /// Accepts and reads one request without a body.
  RawSocket accept_request() const {
    RawSocket socket = peer_.accept();
    EXPECT_TRUE(socket.read_until("\r\n\r\n").contains(" HTTP/1.1\r\n"));
    return socket;
  }
  /// Makes one call and returns the server's end of its connection, which is idle now.
  RawSocket warm_up() {
    Seen warm;
    start(warm, get());
    RawSocket socket = accept_request();
    EXPECT_TRUE(socket.send("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"));
    EXPECT_TRUE(wait_over(warm));
    return socket;
  }

  LoopThread thread_;
  RawListener peer_;
  std::unique_ptr<HttpClient> client_;
  std::vector<std::unique_ptr<HttpCall>> calls_;
};

}  // namespace kvist::net

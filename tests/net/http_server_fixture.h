// A server under test: it answers "/echo" at once and keeps every other exchange for the test to answer.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kvist/net/http_server.h"
#include "net/loop_thread.h"
#include "net/raw_socket.h"

namespace kvist::net {

/// A server that answers "/echo" with the request and keeps every other exchange for the test.
class HttpServerTest : public testing::Test {
 protected:
  ~HttpServerTest() override {
    thread_.run([this] {
      held_.clear();
      server_.reset();
    });
    thread_.stop();
  }

  void listen(HttpServerOptions options = {}) {
    thread_.run([&] {
      auto server = HttpServer::listen(thread_.loop(), options, [this](HttpRequest request, auto exchange) {
        ++requests_;
        if (request.path() == "/echo") {
          return exchange->respond({200, {}, request.method + " " + request.target + " " + request.body});
        }
        exchange->on_client_gone([this] { ++gone_; });
        held_.push_back({std::move(request), std::move(exchange)});
      });
      ASSERT_TRUE(server) << server.error().message;
      server_ = std::move(*server);
      port_ = server_->port();
    });
  }
  RawSocket connect() const { return RawSocket::connect(port_); }

  struct Held {
    HttpRequest request;
    std::shared_ptr<HttpExchange> exchange;
  };
  [[nodiscard]] bool wait_held(std::size_t count) {
    return thread_.wait([&] { return held_.size() == count; });
  }
  /// Runs `work` with the exchange held last, on the loop.
  template <class Work>
  auto with_exchange(Work work) {
    return thread_.run([&] { return work(*held_.back().exchange); });
  }

  LoopThread thread_;
  std::unique_ptr<HttpServer> server_;
  std::uint16_t port_ = 0;
  std::vector<Held> held_;
  int requests_ = 0;
  int gone_ = 0;
};

inline std::string body_of(const std::string& answer) {
  return answer.substr(answer.find("\r\n\r\n") + 4);
}

/// A head, or an answer, without its one field Date, which is another one each second.
inline std::string without_date(std::string answer) {
  const std::size_t at = answer.find("\r\nDate: ");
  constexpr std::size_t kSize = std::string_view("\r\nDate: Thu, 01 Jan 1970 00:00:00 GMT").size();
  if (at == std::string::npos || !answer.substr(at + kSize).starts_with("\r\n")) return "no Date in " + answer;
  return answer.erase(at, kSize);
}

/// Reads one answer with Content-Length.
inline std::string read_answer(RawSocket& socket) {
  const std::string head = socket.read_until("\r\n\r\n");
  const std::size_t at = head.find("Content-Length: ");
  const std::size_t size = at == std::string::npos ? 0 : std::stoul(head.substr(at + 16));
  return head + socket.read_bytes(size);
}

}  // namespace kvist::net

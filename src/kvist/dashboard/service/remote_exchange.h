// An exchange that is answered on another loop than its connection's.
#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <utility>

#include "kvist/net/event_loop.h"
#include "kvist/net/http_server.h"

namespace kvist::dashboard {

/// Takes one whole answer and has it sent from the connection's loop; a stream is broken off. Released without an
/// answer, the client gets 500. Threads: that of the loop that answers.
class RemoteExchange final : public net::HttpExchange {
 public:
  RemoteExchange(net::EventLoop& loop, std::shared_ptr<net::HttpExchange> exchange)
      : loop_(loop), exchange_(std::move(exchange)) {}
  ~RemoteExchange() override {
    // Its last owner has to be its own loop.
    loop_.post([exchange = std::move(exchange_)] {});
  }
  RemoteExchange(const RemoteExchange&) = delete;
  RemoteExchange& operator=(const RemoteExchange&) = delete;

  void respond(net::HttpResponse response) override {
    loop_.post(
        [exchange = exchange_, response = std::move(response)]() mutable { exchange->respond(std::move(response)); });
  }
  void begin_stream(int /*status*/, net::Headers /*headers*/) override { abort(); }
  void write(std::string_view /*data*/) override {}
  void end_stream() override {}
  void abort() override {
    loop_.post([exchange = exchange_] { exchange->abort(); });
  }
  [[nodiscard]] std::size_t unsent_bytes() const override { return 0; }
  void on_drained(std::size_t /*low_water*/, std::function<void()> /*handler*/) override {}
  void on_client_gone(std::function<void()> /*handler*/) override {}
  [[nodiscard]] bool client_gone() const override { return false; }

 private:
  net::EventLoop& loop_;
  std::shared_ptr<net::HttpExchange> exchange_;
};

}  // namespace kvist::dashboard

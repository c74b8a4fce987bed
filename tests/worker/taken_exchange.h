// An exchange without a connection.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "kvist/net/http_server.h"

namespace kvist::worker {

/// Records the response.
class Taken final : public net::HttpExchange {
 public:
  void respond(net::HttpResponse response) override { body = std::move(response.body); }
  void begin_stream(int /*status*/, net::Headers /*headers*/) override {}
  void write(std::string_view data) override { body += data; }
  void end_stream() override {}
  void abort() override {}
  [[nodiscard]] std::size_t unsent_bytes() const override { return 0; }
  void on_drained(std::size_t /*low_water*/, std::function<void()> /*handler*/) override {}
  void on_client_gone(std::function<void()> /*handler*/) override {}
  [[nodiscard]] bool client_gone() const override { return false; }

  std::string body;
};

}  // namespace kvist::worker

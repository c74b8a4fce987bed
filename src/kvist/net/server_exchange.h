// Private to net: the answer to one request.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "kvist/net/http_server.h"

namespace kvist::net {

class LoopImpl;
class ServerConnection;

/// Writes heads and chunk framing. Keeps its connection until the answer is complete or the client has left. Threads:
/// the loop's.
class ServerExchange final : public HttpExchange, public std::enable_shared_from_this<ServerExchange> {
 public:
  explicit ServerExchange(std::shared_ptr<ServerConnection> connection);
  ~ServerExchange() override;

  void respond(HttpResponse response) override;
  void begin_stream(int status, Headers headers) override;
  void write(std::string_view data) override;
  void end_stream() override;
  void abort() override;
  [[nodiscard]] std::size_t unsent_bytes() const override;
  void on_drained(std::size_t low_water, std::function<void()> handler) override;
  void on_client_gone(std::function<void()> handler) override;
  [[nodiscard]] bool client_gone() const override { return gone_; }
  [[nodiscard]] std::optional<TimePoint> request_arrived() const override { return request_arrived_; }

  /// Switches the connection to another protocol (101): from then on write() sends bytes as they are, all that the
  /// client sends goes to `on_bytes`, end_stream() closes the connection when everything is sent. The protocol itself
  /// has to notice a client that is silent. Does nothing for HTTP/1.0.
  void upgrade(const Headers& headers, std::function<void(std::string_view)> on_bytes);

  // Called by the connection.
  void set_request_arrived(std::optional<TimePoint> at) { request_arrived_ = at; }
  /// The client has left. `soon`: the handler is called from the loop, later.
  void client_left(bool soon);
  /// The server is being destroyed: no handler is called any more.
  void forget_client();
  void sent();
  /// The client of an upgraded connection has sent bytes.
  void received(std::string_view bytes);

 private:
  void send(std::initializer_list<std::string_view> pieces);
  void finish();
  void report_gone_soon();
  [[nodiscard]] std::string head(int status, const Headers& headers, std::string_view framing);

  LoopImpl& loop_;
  std::shared_ptr<ServerConnection> connection_;  // null when the answer is complete or the client has left
  std::optional<TimePoint> request_arrived_;
  bool begun_ = false;
  bool gone_ = false;
  bool bodiless_ = false;  // the status or the method forbids a body
  bool upgraded_ = false;  // bytes are sent as they are
  bool above_low_water_ = false;
  std::size_t low_water_ = 0;
  std::function<void()> on_drained_;
  std::function<void()> on_client_gone_;
  std::function<void(std::string_view)> on_bytes_;
};

/// An error answer in the form of the OpenAI API.
[[nodiscard]] HttpResponse error_response(int status, std::string_view message);

}  // namespace kvist::net

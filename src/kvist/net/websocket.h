// The server's end of a WebSocket: messages in, messages out, and a client that is silent or reads too little is given
// up.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "kvist/base/time.h"
#include "kvist/net/event_loop.h"
#include "kvist/net/http_server.h"
#include "kvist/net/websocket_codec.h"

namespace kvist::net {

struct WebSocketOptions {
  std::string subprotocol = {};                       ///< that both speak
  std::size_t max_message_bytes = 64U << 10;          ///< of the client's; a larger one closes it with 1009
  std::size_t max_unsent_bytes = 8UL << 20;           ///< beyond it the connection is broken off
  Duration ping_interval = std::chrono::seconds(20);  ///< between two pings
  Duration pong_timeout = std::chrono::seconds(30);   ///< without a byte of the client, counted from a ping, it is gone
  Duration close_timeout = std::chrono::seconds(2);   ///< for the client's answer to a close
};

/// One client. Destroying it closes the connection. Threads: the loop's.
class WebSocket {
 public:
  struct Handlers {
    std::function<void(std::string_view)> on_text;  ///< a whole message; the view is valid during the call
    /// The connection is closed, by either side. Called once, from the loop, never from within a call of this object;
    /// then it may be destroyed.
    std::function<void()> on_closed;
  };

  /// Answers the request: with 101, or with why it is none that opens a WebSocket; then the result is null.
  [[nodiscard]] static std::shared_ptr<WebSocket> accept(EventLoop& loop, const HttpRequest& request,
                                                         std::shared_ptr<HttpExchange> exchange,
                                                         WebSocketOptions options, Handlers handlers);
  virtual ~WebSocket() = default;

  /// Sends a message, which has to be UTF-8. Does nothing once the connection is closing.
  virtual void send_text(std::string_view text) = 0;
  /// What the client has not taken yet.
  [[nodiscard]] virtual std::size_t unsent_bytes() const = 0;
  /// Tells the client why, and closes when it has answered or after a while. Idempotent.
  virtual void close(WebSocketClose code, std::string_view reason) = 0;
  [[nodiscard]] virtual bool is_open() const = 0;
};

}  // namespace kvist::net

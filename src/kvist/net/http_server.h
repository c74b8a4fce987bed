// HTTP/1.1 server: keep-alive, bounded bodies, streamed answers, and word when the client leaves.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "kvist/base/error.h"
#include "kvist/base/time.h"
#include "kvist/net/event_loop.h"
#include "kvist/net/http_types.h"

namespace kvist::net {

/// The answer to one request, given at once or as a stream. Keep the shared pointer as long as the answer is not
/// complete; dropping it unanswered gives the client 500, dropping a begun stream closes the connection so that the
/// client sees a broken answer, never a silent end. Loop thread only. Calls after the client has left do nothing.
class HttpExchange {
 public:
  virtual ~HttpExchange() = default;

  /// The whole answer, with Content-Length.
  virtual void respond(HttpResponse response) = 0;
  /// Head of a streamed answer (chunked transfer encoding); send it at once.
  virtual void begin_stream(int status, Headers headers) = 0;
  /// Part of a streamed answer, sent without delay. Parts written while the socket is busy go out together.
  virtual void write(std::string_view data) = 0;
  /// Ends a streamed answer properly; the connection can be used again.
  virtual void end_stream() = 0;
  /// Breaks the connection off: the client of a begun stream sees that the answer is not whole.
  virtual void abort() = 0;

  /// Bytes written but not yet taken by the socket.
  [[nodiscard]] virtual std::size_t unsent_bytes() const = 0;
  /// Called once each time unsent_bytes() falls to `low_water` or less after having been above.
  virtual void on_drained(std::size_t low_water, std::function<void()> handler) = 0;
  /// Called once if the client leaves before the answer is complete.
  virtual void on_client_gone(std::function<void()> handler) = 0;
  [[nodiscard]] virtual bool client_gone() const = 0;
};

using HttpHandler = std::function<void(HttpRequest request, std::shared_ptr<HttpExchange> exchange)>;

struct HttpServerOptions {
  std::string host = "127.0.0.1";
  std::uint16_t port = 0;                      ///< 0: any free port
  bool shared_port = false;                    ///< other servers may listen there too and share its connections
  std::uint64_t max_body_bytes = 16ULL << 20;  ///< larger bodies get 413
  /// Of all requests from their first byte to the end of their answers; one that would exceed it gets 503.
  std::uint64_t max_bodies_bytes = 1ULL << 30;
  std::uint32_t max_header_bytes = 64U << 10;
  std::uint32_t max_connections = 16'384;            ///< further ones are closed at once
  Duration idle_timeout = std::chrono::seconds(75);  ///< between requests, and for a request to arrive whole
};

/// Listens and serves on the loop. One handler for everything; routing by path is the service's business.
class HttpServer {
 public:
  /// Binds and listens; an error names address and cause.
  [[nodiscard]] static Result<std::unique_ptr<HttpServer>> listen(EventLoop& loop, HttpServerOptions options,
                                                                  HttpHandler handler);
  virtual ~HttpServer() = default;
  [[nodiscard]] virtual std::uint16_t port() const = 0;
  /// Stops accepting and closes connections that are idle; answers under way go on. Idempotent.
  virtual void close() = 0;
  [[nodiscard]] virtual std::size_t connections() const = 0;
};

}  // namespace kvist::net

// HTTP/1.1 server: keep-alive, bounded bodies, streamed answers, and a callback when the client leaves.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "kvist/base/error.h"
#include "kvist/base/time.h"
#include "kvist/net/browser_policy.h"
#include "kvist/net/event_loop.h"
#include "kvist/net/http_server_report.h"
#include "kvist/net/http_types.h"

namespace kvist::net {

/// The answer to one request, given at once or as a stream. The owner keeps the shared pointer until the answer is
/// complete. If it is released before, the client gets 500, or, if a stream has begun, the connection is closed so that
/// the client sees a broken answer. Calls after the client has left do nothing, nor does one that comes out of turn: a
/// second answer, or a part of a stream that was not begun. Threads: the loop's.
class HttpExchange {
 public:
  virtual ~HttpExchange() = default;

  /// Sends the whole answer, with Content-Length.
  virtual void respond(HttpResponse response) = 0;
  /// Sends the head of a streamed answer (chunked transfer encoding).
  virtual void begin_stream(int status, Headers headers) = 0;
  /// Sends a part of a streamed answer without delay. Parts that are written while the socket is busy are sent
  /// together.
  virtual void write(std::string_view data) = 0;
  /// Ends a streamed answer in order. The connection can be used again.
  virtual void end_stream() = 0;
  /// Breaks the connection off, so that the client of a begun stream sees that the answer is incomplete.
  virtual void abort() = 0;

  /// The number of bytes that were written but not yet taken by the socket.
  [[nodiscard]] virtual std::size_t unsent_bytes() const = 0;
  /// Sets a handler that is called each time unsent_bytes() falls from above `low_water` to at most that.
  virtual void on_drained(std::size_t low_water, std::function<void()> handler) = 0;
  /// Sets a handler that is called once if the client leaves before the answer is complete.
  virtual void on_client_gone(std::function<void()> handler) = 0;
  [[nodiscard]] virtual bool client_gone() const = 0;

  /// The status that the client got, from an exchange that may change an answer on its way; nothing: as answered here.
  [[nodiscard]] virtual std::optional<int> client_status() const { return std::nullopt; }
  /// When the system had the last bytes of the request; nothing without HttpServerOptions::stamp_reads, or where the
  /// system has no stamp.
  [[nodiscard]] virtual std::optional<TimePoint> request_arrived() const { return std::nullopt; }
};

/// Is asked before a body is read, with the request so far. An answer is given at once: the body is not read, and the
/// connection ends.
using HttpHeadCheck = std::function<std::optional<HttpResponse>(const HttpRequest& head)>;

using HttpHandler = std::function<void(HttpRequest request, std::shared_ptr<HttpExchange> exchange)>;

class ConnectionsByAddress;
class TlsServer;

struct HttpServerOptions {
  std::string host = "127.0.0.1";
  std::uint16_t port = 0;    ///< 0: any free port
  bool shared_port = false;  ///< other servers may listen on the port too, and connections are spread over them
  std::uint64_t max_body_bytes = 16ULL << 20;  ///< larger bodies get 413
  /// The bound on the bodies of all requests together, from their first byte to the end of their answers; a compressed
  /// one counts with what it takes while it is decompressed. A request that would exceed it gets 503.
  std::uint64_t max_bodies_bytes = 1ULL << 30;
  std::uint32_t max_header_bytes = 64U << 10;
  /// When so many are open, a newcomer takes the place of the one that has been idle longest, if any is: that has sent
  /// nothing of a request, or of the next one.
  std::uint32_t max_connections = 16'384;
  /// Connections beyond max_connections when none of those is idle, each for one request: one that `is_reserved` is
  /// served, any other gets 503. Further ones are closed at once.
  std::uint32_t reserved_connections = 0;
  std::function<bool(const HttpRequest&)> is_reserved = {};
  /// The bound on the connections of an IP address, beyond which they are closed at once; null: none.
  std::shared_ptr<ConnectionsByAddress> by_address = {};
  Duration head_timeout = std::chrono::seconds(75);  ///< from the first byte of a request to the end of its head
  Duration body_timeout = std::chrono::seconds(75);  ///< then to the end of its body
  Duration idle_timeout = std::chrono::seconds(75);  ///< between requests
  /// A client that has more to read and reads less per second, over idle_timeout, is given up; 0: one that reads
  /// nothing at all.
  std::uint64_t least_read_rate = 0;
  HttpHeadCheck before_body = {};              ///< of requests that have a body; empty: all are read
  std::optional<BrowserPolicy> browsers = {};  ///< what web pages may send; nothing: not judged
  std::shared_ptr<TlsServer> tls = {};         ///< null: plain HTTP
  bool stamp_reads = false;                    ///< HttpExchange::request_arrived() is known
};

/// Listens and serves on the loop, with one handler for all requests. Services dispatch by path themselves. Threads:
/// the loop's.
class HttpServer {
 public:
  /// Binds and listens. Errors name address and cause.
  [[nodiscard]] static Result<std::unique_ptr<HttpServer>> listen(EventLoop& loop, HttpServerOptions options,
                                                                  HttpHandler handler);
  virtual ~HttpServer() = default;
  [[nodiscard]] virtual std::uint16_t port() const = 0;
  /// From here on each answer ends its connection, which it says (Connection: close). Requests go on to be served, on
  /// new connections too. Idempotent.
  virtual void drain() = 0;
  /// Calls `done`, from the loop, when the sockets have taken all that was written until now, except what clients that
  /// have left meanwhile were to get. Never, if the server is destroyed before.
  virtual void when_sent(std::function<void()> done) = 0;
  /// Stops accepting and closes idle connections; answers under way continue. Idempotent.
  virtual void close() = 0;
  [[nodiscard]] virtual std::size_t connections() const = 0;
  [[nodiscard]] virtual HttpServerReport report() const = 0;
};

}  // namespace kvist::net

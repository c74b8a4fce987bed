// HTTP/1.1 client: pooled connections, streamed answers, cancellation, deadlines.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/time.h"
#include "kvist/net/event_loop.h"
#include "kvist/net/http_types.h"

namespace kvist::net {

/// When the parts of a call happened, as instants of core time.
struct CallTimes {
  TimePoint started;     ///< the call was made
  TimePoint sent;        ///< the last byte of the request was taken by the socket
  TimePoint first_byte;  ///< first byte of the answer
};

/// How long before its read a piece of a body had arrived in this machine: between `at_least` and `at_most`, for every
/// byte that was asked about.
struct PieceAge {
  Duration at_least{};
  Duration at_most{};
  bool stamped = false;  ///< the system had stamped the packet; otherwise `at_least` is 0
};

/// Receives one answer. After on_end() or on_error() no handler is called. Threads: the loop's.
struct CallHandlers {
  /// The socket took the last byte of the request. Called again if the request is sent again on a new connection; not
  /// called if the server answers before it has the whole request.
  std::function<void(TimePoint at)> on_sent;
  std::function<void(int status, Headers headers)> on_head;
  /// A piece of the body was read, at `at`. The transfer encoding is removed.
  std::function<void(std::string_view data, TimePoint at)> on_body;
  std::function<void(const CallTimes& times)> on_end;
  /// The call failed with kUnavailable (connect or transport), kDeadlineExceeded, kCorrupt (not HTTP), or
  /// kResourceExhausted: this process or machine has no descriptor, port or memory for a connection, so the server was
  /// not reached and is not to blame. `answered`: some byte of the answer had arrived.
  std::function<void(const Error& error, bool answered)> on_error;
};

/// A call under way. Destroying it cancels: the connection is closed at once and no handler is called any more.
/// Threads: the loop's.
class HttpCall {
 public:
  virtual ~HttpCall() = default;
  /// pause() stops reading and resume() continues, so that a slow consumer slows the sender down instead of filling the
  /// memory.
  virtual void pause() = 0;
  virtual void resume() = 0;

  enum class Bytes { kLast, kAll };
  /// Of the piece that on_body is being given: of its last byte, or of all, which costs a system call if the read had
  /// more than that piece. By the system's stamps of packets; without one, what arrived was not there when the loop
  /// last looked. Requires: HttpClientOptions::stamp_reads, and to be called from on_body.
  [[nodiscard]] virtual PieceAge piece_age(Bytes which) = 0;
  /// The request's last byte was taken by the socket at most so long before `sent`. Requires: stamp_reads.
  [[nodiscard]] virtual Duration longest_send() const = 0;
};

class TlsClient;

/// What a client has to know of one server.
struct ServerSettings {
  std::string bearer_key = {};          ///< sent as Authorization, in place of the request's; empty: the request's is
  std::shared_ptr<TlsClient> tls = {};  ///< for https URLs; null: the client's
};

struct HttpClientOptions {
  Duration connect_timeout = std::chrono::seconds(5);
  std::uint32_t max_idle_per_host = 256;
  Duration idle_timeout = std::chrono::seconds(
      30);  ///< below the server's time-out, so that no request is sent on a connection that is being closed
  /// A request that is sent only once does not use a connection that was idle for longer: its server may be about to
  /// close it.
  Duration most_idle_for_only_once = std::chrono::seconds(1);
  std::uint64_t max_buffered_body_bytes = 64ULL << 20;
  std::map<std::string, ServerSettings> servers = {};  ///< by base URL
  /// Addresses of this machine from which to connect, in turn; empty: the system chooses. Of a server whose address is
  /// of another family the system chooses, too.
  std::vector<std::string> source_addresses = {};
  /// What is read is known by the time at which it arrived, for HttpCall::piece_age().
  bool stamp_reads = false;
  /// For https URLs of servers without settings; null: the system's authorities are trusted.
  std::shared_ptr<TlsClient> tls = {};
};

/// Makes calls on a loop. Connections are kept alive and reused, the last used first. If a request on a reused
/// connection fails before any byte of the answer has arrived, it is sent again on a new one (but see
/// HttpRequest::only_once). Threads: the loop's.
class HttpClient {
 public:
  HttpClient(EventLoop& loop, HttpClientOptions options);
  ~HttpClient();

  /// Starts a call. `base_url` is "http://host:port" or "https://host:port", `request.target` the path. Host and
  /// Content-Length are written here. `timeout` is for the whole call. Ensures: no handler is called before this
  /// returns.
  [[nodiscard]] std::unique_ptr<HttpCall> start(const std::string& base_url, HttpRequest request, Duration timeout,
                                                CallHandlers handlers);
  /// The same with a request that the caller keeps too, to repeat it, so that its body is not copied.
  [[nodiscard]] std::unique_ptr<HttpCall> start(const std::string& base_url, std::shared_ptr<const HttpRequest> request,
                                                Duration timeout, CallHandlers handlers);
  /// Like start(), but gives the answer as one value, with a body of at most max_buffered_body_bytes.
  [[nodiscard]] std::unique_ptr<HttpCall> fetch(const std::string& base_url, HttpRequest request, Duration timeout,
                                                std::function<void(Result<HttpResponse>)> done);
  /// From here on calls to this server use these settings, and none of its idle connections. Calls under way go on.
  /// Empty settings: the server is forgotten.
  void set_server(const std::string& base_url, ServerSettings settings);

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

/// A blocking call for threads without a loop (tools, tests, deployment). `url` is complete: http://host:port/path.
[[nodiscard]] Result<HttpResponse> fetch_blocking(const std::string& method, const std::string& url, std::string body,
                                                  Duration timeout, Headers headers = {});

}  // namespace kvist::net

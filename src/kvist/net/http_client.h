// HTTP/1.1 client: pooled connections, streamed answers, cancellation, deadlines.
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

/// When things happened on the wire, on core time.
struct CallTimes {
  TimePoint started;     ///< the call was made
  TimePoint sent;        ///< the last byte of the request was taken by the socket
  TimePoint first_byte;  ///< first byte of the answer
};

/// Receives one answer. All calls come on the loop's thread; after on_end() or on_error() none comes any more.
struct CallHandlers {
  /// The last byte of the request was taken by the socket. Comes again if the request had to be sent once more on a
  /// fresh connection; does not come where the server answered before it had the whole request.
  std::function<void(TimePoint at)> on_sent;
  std::function<void(int status, const Headers& headers)> on_head;
  /// A piece of the body, with the transfer encoding removed, as soon as it is read. `at`: when the read returned.
  std::function<void(std::string_view data, TimePoint at)> on_body;
  std::function<void(const CallTimes& times)> on_end;
  /// kUnavailable (connect or transport), kDeadlineExceeded, kCorrupt (not HTTP). `answered`: some byte of the answer
  /// had come.
  std::function<void(const Error& error, bool answered)> on_error;
};

/// A call under way. Destroying it cancels: the connection is closed at once and no handler is called any more. Loop
/// thread only.
class HttpCall {
 public:
  virtual ~HttpCall() = default;
  /// Stops and resumes reading, so that a slow consumer slows the sender instead of filling memory.
  virtual void pause() = 0;
  virtual void resume() = 0;
};

struct HttpClientOptions {
  Duration connect_timeout = std::chrono::seconds(5);
  std::uint32_t max_idle_per_host = 256;
  Duration idle_timeout =
      std::chrono::seconds(30);  ///< below the server's, so that no request meets a closing connection
  std::uint64_t max_buffered_body_bytes = 64ULL << 20;
};

/// Makes calls on a loop. Connections are kept alive and reused, last used first. A request on a reused connection that
/// fails before any byte of the answer is sent once more on a fresh one.
class HttpClient {
 public:
  HttpClient(EventLoop& loop, HttpClientOptions options);
  ~HttpClient();

  /// `base_url` is "http://host:port"; `request.target` the path. Host and Content-Length are set here. `timeout`
  /// covers the whole call. Never calls a handler before it has returned.
  [[nodiscard]] std::unique_ptr<HttpCall> start(const std::string& base_url, HttpRequest request, Duration timeout,
                                                CallHandlers handlers);
  /// The same with the answer as one value (body bounded by max_buffered_body_bytes).
  [[nodiscard]] std::unique_ptr<HttpCall> fetch(const std::string& base_url, HttpRequest request, Duration timeout,
                                                std::function<void(Result<HttpResponse>)> done);

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

/// One blocking call from a thread that runs no loop (tools, tests, deployment). `url` is whole: http://host:port/path.
[[nodiscard]] Result<HttpResponse> fetch_blocking(const std::string& method, const std::string& url, std::string body,
                                                  Duration timeout, Headers headers = {});

}  // namespace kvist::net

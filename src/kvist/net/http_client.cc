#include "kvist/net/http_client.h"

#include <optional>
#include <utility>

#include "kvist/net/client_call.h"
#include "kvist/net/connection_pool.h"
#include "kvist/net/tls.h"
#include "kvist/net/url.h"

namespace kvist::net {

class HttpClient::Impl : public ConnectionPool {
  using ConnectionPool::ConnectionPool;
};

namespace {

/// The caller's object. Its destructor cancels the call.
class CallHandle final : public HttpCall {
 public:
  explicit CallHandle(std::shared_ptr<ClientCall> call) : call_(std::move(call)) {}
  ~CallHandle() override { call_->cancel(); }
  void pause() override { call_->pause(); }
  void resume() override { call_->resume(); }
  PieceAge piece_age(Bytes which) override { return call_->piece_age(which); }
  [[nodiscard]] Duration longest_send() const override { return call_->longest_send(); }

 private:
  std::shared_ptr<ClientCall> call_;
};

/// Collects an answer into one value.
struct Collector {
  HttpResponse response;
  std::uint64_t max_bytes;
  std::function<void(Result<HttpResponse>)> done;
  std::weak_ptr<ClientCall> call;

  void add(std::string_view data) {
    if (response.body.size() + data.size() <= max_bytes) {
      response.body.append(data);
      return;
    }
    if (const auto running = call.lock()) running->cancel();
    report(fail(ErrorCode::kTooLarge, "an answer larger than " + std::to_string(max_bytes) + " bytes"));
  }
  void report(Result<HttpResponse> result) {
    // Moved out of the member first, because it may destroy the call and so this object's owner.
    const auto handler = std::exchange(done, nullptr);
    if (handler) handler(std::move(result));
  }
};

}  // namespace

HttpClient::HttpClient(EventLoop& loop, HttpClientOptions options)
    : impl_(std::make_shared<Impl>(loop.impl(), options)) {}

HttpClient::~HttpClient() {
  impl_->close();
}

void HttpClient::set_server(const std::string& base_url, ServerSettings settings) {
  impl_->set_server(base_url, std::move(settings));
}

std::unique_ptr<HttpCall> HttpClient::start(const std::string& base_url, HttpRequest request, Duration timeout,
                                            CallHandlers handlers) {
  return start(base_url, std::make_shared<const HttpRequest>(std::move(request)), timeout, std::move(handlers));
}

std::unique_ptr<HttpCall> HttpClient::start(const std::string& base_url, std::shared_ptr<const HttpRequest> request,
                                            Duration timeout, CallHandlers handlers) {
  auto call = std::make_shared<ClientCall>(impl_, base_url, std::move(request), timeout, std::move(handlers));
  call->start();
  return std::make_unique<CallHandle>(std::move(call));
}

std::unique_ptr<HttpCall> HttpClient::fetch(const std::string& base_url, HttpRequest request, Duration timeout,
                                            std::function<void(Result<HttpResponse>)> done) {
  const auto collector = std::make_shared<Collector>();
  collector->max_bytes = impl_->options().max_buffered_body_bytes;
  collector->done = std::move(done);
  CallHandlers handlers;
  handlers.on_head = [collector](int status, Headers headers) {
    collector->response.status = status;
    collector->response.headers = std::move(headers);
  };
  handlers.on_body = [collector](std::string_view data, TimePoint) { collector->add(data); };
  handlers.on_end = [collector](const CallTimes&) { collector->report(std::move(collector->response)); };
  handlers.on_error = [collector](const Error& error, bool) { collector->report(std::unexpected(error)); };
  auto call = std::make_shared<ClientCall>(impl_, base_url, std::make_shared<const HttpRequest>(std::move(request)),
                                           timeout, std::move(handlers));
  collector->call = call;
  call->start();
  return std::make_unique<CallHandle>(std::move(call));
}

Result<HttpResponse> fetch_blocking(const std::string& method, const std::string& url, std::string body,
                                    Duration timeout, Headers headers) {
  return fetch_blocking(method, url, std::move(body), timeout, std::move(headers), nullptr);
}

Result<HttpResponse> fetch_blocking(const std::string& method, const std::string& url, std::string body,
                                    Duration timeout, Headers headers, std::shared_ptr<TlsClient> tls) {
  KVIST_TRY(const HttpUrl parts, parse_http_url(url));
  EventLoop loop;
  HttpClientOptions options;
  options.connect_timeout = timeout;
  options.tls = std::move(tls);
  HttpClient client(loop, std::move(options));
  std::optional<Result<HttpResponse>> answer;
  HttpRequest request{.method = method, .target = parts.target, .headers = std::move(headers), .body = std::move(body)};
  const auto call = client.fetch((parts.tls ? "https://" : "http://") + parts.authority, std::move(request), timeout,
                                 [&](Result<HttpResponse> r) {
                                   answer = std::move(r);
                                   loop.stop();
                                 });
  loop.run();
  if (!answer) return fail(ErrorCode::kInternal, "the loop ended before the call to " + url);
  return std::move(*answer);
}

}  // namespace kvist::net

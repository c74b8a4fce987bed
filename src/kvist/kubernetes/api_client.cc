#include "kvist/kubernetes/api_client.h"

#include <utility>

#include "kvist/kubernetes/answers.h"
#include "kvist/kubernetes/api_request.h"
#include "kvist/kubernetes/line_splitter.h"

namespace kvist::kubernetes {
namespace {

constexpr Duration kCallTimeout = std::chrono::seconds(30);
/// Beyond the time at which the server ends a watch.
constexpr Duration kWatchGrace = std::chrono::seconds(30);
constexpr int kFirstNoSuccess = 300;
/// Of an error's body.
constexpr std::size_t kMostErrorBytes = 64U << 10;

/// The answer of one watch, as it comes.
struct WatchAnswer {
  explicit WatchAnswer(ApiClient::WatchHandlers given) : handlers(std::move(given)), lines(kMostEventBytes) {}
  ApiClient::WatchHandlers handlers;
  LineSplitter lines;
  int status = 0;
  net::HttpResponse refusal;
  bool over = false;

  void fail_with(const ApiError& error) {
    if (std::exchange(over, true)) return;
    handlers.on_failed(error);
  }
};

}  // namespace

Result<std::unique_ptr<ApiClient>> ApiClient::create(net::EventLoop& loop, ClusterAccess access) {
  KVIST_TRY(std::shared_ptr<net::TlsClient> tls, tls_of(access));
  return std::unique_ptr<ApiClient>(new ApiClient(loop, std::move(access), std::move(tls)));
}

ApiClient::ApiClient(net::EventLoop& loop, ClusterAccess access, std::shared_ptr<net::TlsClient> tls)
    : access_(std::move(access)),
      client_(loop, {.max_idle_per_host = 4, .max_buffered_body_bytes = kMostAnswerBytes, .tls = std::move(tls)}) {}

net::HttpRequest ApiClient::prepared(net::HttpRequest request) {
  request.target = access_.path_prefix + request.target;
  const auto token = current_token(access_);
  token_problem_ = token ? "" : token.error().message;
  if (token && !token->empty()) request.headers.set("Authorization", "Bearer " + *token);
  return request;
}

std::unique_ptr<net::HttpCall> ApiClient::call(net::HttpRequest request,
                                               std::function<void(ApiResult<std::string>)> done) {
  net::HttpRequest ready = prepared(std::move(request));
  return client_.fetch(access_.server, std::move(ready), kCallTimeout,
                       [done = std::move(done), problem = token_problem_](Result<net::HttpResponse> answer) {
                         if (!answer) return done(std::unexpected(unreachable(answer.error())));
                         if (answer->status < kFirstNoSuccess) return done(std::move(answer->body));
                         ApiError error = error_of(*answer);
                         if (!problem.empty()) error.message += "; " + problem;
                         done(std::unexpected(std::move(error)));
                       });
}

std::unique_ptr<net::HttpCall> ApiClient::watch(net::HttpRequest request, WatchHandlers handlers) {
  const auto answer = std::make_shared<WatchAnswer>(std::move(handlers));
  net::CallHandlers on;
  on.on_head = [answer](int status, net::Headers headers) {
    answer->status = status;
    answer->refusal = {.status = status, .headers = std::move(headers), .body = {}};
    if (status < kFirstNoSuccess) answer->handlers.on_open();
  };
  on.on_body = [answer](std::string_view data, TimePoint) {
    if (answer->over) return;
    if (answer->status >= kFirstNoSuccess) {
      answer->refusal.body += data.substr(0, kMostErrorBytes - std::min(kMostErrorBytes, answer->refusal.body.size()));
      return;
    }
    const auto taken = answer->lines.take(data, [&](std::string_view line) {
      if (!answer->handlers.on_line(line)) answer->over = true;
      return !answer->over;
    });
    if (!taken) answer->fail_with(unreadable(taken.error()));
  };
  on.on_end = [answer](const net::CallTimes&) {
    if (answer->status >= kFirstNoSuccess) return answer->fail_with(error_of(answer->refusal));
    if (!std::exchange(answer->over, true)) answer->handlers.on_end();
  };
  on.on_error = [answer](const Error& error, bool) { answer->fail_with(unreachable(error)); };
  return client_.start(access_.server, prepared(std::move(request)), kWatchTimeout + kWatchGrace, std::move(on));
}

}  // namespace kvist::kubernetes

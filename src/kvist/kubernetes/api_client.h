// Calls to the API server on a loop.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "kvist/kubernetes/api_error.h"
#include "kvist/kubernetes/cluster_access.h"
#include "kvist/net/event_loop.h"
#include "kvist/net/http_client.h"

namespace kvist::kubernetes {

/// Threads: the loop's.
class ApiClient {
 public:
  /// Errors: certificates that cannot be read.
  [[nodiscard]] static Result<std::unique_ptr<ApiClient>> create(net::EventLoop& loop, ClusterAccess access);

  /// Calls `done` with the body of a successful answer, of at most kMostAnswerBytes. Ensures: not before this returns.
  /// Never returns null: a failure before the call is reported as a failed answer. Destroying the call cancels it.
  [[nodiscard]] std::unique_ptr<net::HttpCall> call(net::HttpRequest request,
                                                    std::function<void(ApiResult<std::string>)> done);
  static constexpr std::size_t kMostAnswerBytes = 64U << 20;

  /// Handlers of a watch; after on_end or on_failed none is called.
  struct WatchHandlers {
    std::function<void()> on_open;
    /// Returns whether the watch goes on. If not, the caller destroys the call soon, and no handler is called any more.
    std::function<bool(std::string_view line)> on_line;
    std::function<void()> on_end;
    std::function<void(const ApiError&)> on_failed;
  };
  /// An answer that goes on: lines of JSON.
  [[nodiscard]] std::unique_ptr<net::HttpCall> watch(net::HttpRequest request, WatchHandlers handlers);

  [[nodiscard]] const ClusterAccess& access() const { return access_; }

 private:
  ApiClient(net::EventLoop& loop, ClusterAccess access, std::shared_ptr<net::TlsClient> tls);
  /// Adds the caller's credentials. A token that cannot be read is left out: then the server's 401 says what is
  /// missing, and the problem with the file is reported with it.
  [[nodiscard]] net::HttpRequest prepared(net::HttpRequest request);

  ClusterAccess access_;
  net::HttpClient client_;
  std::string token_problem_;  // empty: it could be read
};

}  // namespace kvist::kubernetes

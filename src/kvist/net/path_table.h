// Maps paths and methods to handlers.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "kvist/net/http_server.h"
#include "kvist/net/http_types.h"

namespace kvist::net {

/// The path table of a service. A request that matches no entry goes to the rest handler if that one takes the path.
/// Otherwise an unknown path is answered with 404 and a list of the known paths, a known path with another method with
/// 405 and Allow. Threads: one registers handlers; once it is done, any may call handle(). Requires:
/// nothing is registered after the server listens.
class PathTable {
 public:
  using Handler = std::function<void(HttpRequest request, const std::shared_ptr<HttpExchange>& exchange)>;
  /// A handler that answers at once.
  using Answer = std::function<HttpResponse(const HttpRequest& request)>;
  /// Makes the service's error answer, including its status. The table adds Allow.
  using Refuse = std::function<HttpResponse(const HttpRequest& request, int status, const std::string& message)>;

  explicit PathTable(Refuse refuse) : refuse_(std::move(refuse)) {}

  void on(const std::string& method, const std::string& path, Handler handler);
  void answer(const std::string& method, const std::string& path, Answer answer);
  /// Registers the handler of requests that match no entry and whose path (without query) satisfies `takes`.
  void on_rest(std::function<bool(std::string_view path)> takes, Handler handler);

  /// HEAD goes to the handler of GET; the server omits the body.
  void handle(HttpRequest request, const std::shared_ptr<HttpExchange>& exchange) const;

 private:
  [[nodiscard]] HttpResponse unknown_path(const HttpRequest& request) const;

  Refuse refuse_;
  std::map<std::string, std::map<std::string, Handler>, std::less<>> paths_;  // then by method
  std::function<bool(std::string_view path)> takes_rest_;
  Handler rest_;
};

}  // namespace kvist::net

// Maps paths and methods to handlers.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "kvist/net/http_server.h"
#include "kvist/net/http_types.h"

namespace kvist::gateway {

/// The path table of the service. A path that is not in it goes to the handler of on_rest() if that takes the path;
/// otherwise the answer is 404. A known path with another method is answered with 405 and Allow. The table does not
/// change once the server listens.
class HttpFront {
 public:
  using Handler = std::function<void(net::HttpRequest request, const std::shared_ptr<net::HttpExchange>& exchange)>;
  /// A handler that returns its answer at once.
  using Answer = std::function<net::HttpResponse(const net::HttpRequest& request)>;

  void on(const std::string& method, const std::string& path, Handler handler);
  void answer(const std::string& method, const std::string& path, Answer answer);
  /// Sets the handler of requests that no other handler takes, for the paths (without query) that `takes` accepts.
  void on_rest(std::function<bool(std::string_view path)> takes, Handler handler);

  /// HEAD goes to the handler of GET; the server leaves the body out.
  void handle(net::HttpRequest request, const std::shared_ptr<net::HttpExchange>& exchange) const;

 private:
  std::map<std::string, std::map<std::string, Handler>, std::less<>> routes_;  // path, then method
  std::function<bool(std::string_view path)> takes_rest_;
  Handler rest_;
};

}  // namespace kvist::gateway

// Paths and methods to handlers.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "kvist/net/http_server.h"
#include "kvist/net/http_types.h"

namespace kvist::gateway {

/// The path table of the service: an unknown path is 404, a known one with another method 405 with Allow. Immutable
/// once the server listens.
class HttpFront {
 public:
  using Handler = std::function<void(net::HttpRequest request, const std::shared_ptr<net::HttpExchange>& exchange)>;
  /// A handler that has its answer at once.
  using Answer = std::function<net::HttpResponse(const net::HttpRequest& request)>;

  void on(const std::string& method, const std::string& path, Handler handler);
  void answer(const std::string& method, const std::string& path, Answer answer);

  /// HEAD goes to the handler of GET: the server leaves the body out.
  void handle(net::HttpRequest request, const std::shared_ptr<net::HttpExchange>& exchange) const;

 private:
  std::map<std::string, std::map<std::string, Handler>, std::less<>> routes_;  // path, then method
};

}  // namespace kvist::gateway

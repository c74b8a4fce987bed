// Paths and methods to handlers.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "kvist/net/http_server.h"
#include "kvist/net/http_types.h"

namespace kvist::gateway {

/// The path table of the service. What is not in it goes to the handler of the rest, where that takes the path; else an
/// unknown path is 404, a known one with another method 405 with Allow. Immutable once the server listens.
class HttpFront {
 public:
  using Handler = std::function<void(net::HttpRequest request, const std::shared_ptr<net::HttpExchange>& exchange)>;
  /// A handler that has its answer at once.
  using Answer = std::function<net::HttpResponse(const net::HttpRequest& request)>;

  void on(const std::string& method, const std::string& path, Handler handler);
  void answer(const std::string& method, const std::string& path, Answer answer);
  /// Takes the requests that no other handler does, of the paths (without query) for which `takes` says so.
  void on_rest(std::function<bool(std::string_view path)> takes, Handler handler);

  /// HEAD goes to the handler of GET: the server leaves the body out.
  void handle(net::HttpRequest request, const std::shared_ptr<net::HttpExchange>& exchange) const;

 private:
  std::map<std::string, std::map<std::string, Handler>, std::less<>> routes_;  // path, then method
  std::function<bool(std::string_view path)> takes_rest_;
  Handler rest_;
};

}  // namespace kvist::gateway

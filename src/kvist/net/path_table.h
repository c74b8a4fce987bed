// Paths and methods to handlers.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "kvist/net/http_server.h"
#include "kvist/net/http_types.h"

namespace kvist::net {

/// The path table of a service. What is not in it goes to the handler of the rest, where that takes the path; else an
/// unknown path is 404, whose message lists those that there are, and a known one with another method 405 with Allow.
/// Immutable once the server listens.
class PathTable {
 public:
  using Handler = std::function<void(HttpRequest request, const std::shared_ptr<HttpExchange>& exchange)>;
  /// A handler that has its answer at once.
  using Answer = std::function<HttpResponse(const HttpRequest& request)>;
  /// How the service writes an error: a whole answer, status included. The table adds Allow.
  using Refuse = std::function<HttpResponse(const HttpRequest& request, int status, const std::string& message)>;

  explicit PathTable(Refuse refuse) : refuse_(std::move(refuse)) {}

  void on(const std::string& method, const std::string& path, Handler handler);
  void answer(const std::string& method, const std::string& path, Answer answer);
  /// Takes the requests that no other handler does, of the paths (without query) for which `takes` says so.
  void on_rest(std::function<bool(std::string_view path)> takes, Handler handler);

  /// HEAD goes to the handler of GET: the server leaves the body out.
  void handle(HttpRequest request, const std::shared_ptr<HttpExchange>& exchange) const;

 private:
  [[nodiscard]] HttpResponse unknown_path(const HttpRequest& request) const;

  Refuse refuse_;
  std::map<std::string, std::map<std::string, Handler>, std::less<>> paths_;  // then by method
  std::function<bool(std::string_view path)> takes_rest_;
  Handler rest_;
};

}  // namespace kvist::net

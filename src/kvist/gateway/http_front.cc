#include "kvist/gateway/http_front.h"

#include <fmt/format.h>

#include <utility>

#include "kvist/gateway/error_answer.h"
#include "kvist/openai/errors.h"

namespace kvist::gateway {

void HttpFront::on(const std::string& method, const std::string& path, Handler handler) {
  routes_[path][method] = std::move(handler);
}

void HttpFront::answer(const std::string& method, const std::string& path, Answer answer) {
  on(method, path,
     [answer = std::move(answer)](const net::HttpRequest& request, const std::shared_ptr<net::HttpExchange>& exchange) {
       exchange->respond(answer(request));
     });
}

void HttpFront::on_rest(std::function<bool(std::string_view path)> takes, Handler handler) {
  takes_rest_ = std::move(takes);
  rest_ = std::move(handler);
}

void HttpFront::handle(net::HttpRequest request, const std::shared_ptr<net::HttpExchange>& exchange) const {
  const std::string path(request.path());
  const auto route = routes_.find(path);
  if (route != routes_.end()) {
    const auto method = route->second.find(request.method == "HEAD" ? "GET" : request.method);
    if (method != route->second.end()) return method->second(std::move(request), exchange);
  }
  if (takes_rest_ && takes_rest_(path)) return rest_(std::move(request), exchange);
  if (route == routes_.end()) {
    net::HttpResponse unknown =
        json_answer(openai::error_body(fmt::format("no such path: {}", path), "Not Found", "", 404));
    unknown.status = 404;
    return exchange->respond(std::move(unknown));
  }
  std::string allowed;
  for (const auto& [name, handler] : route->second) allowed += (allowed.empty() ? "" : ", ") + name;
  net::HttpResponse refused = json_answer(openai::error_body(
      fmt::format("{} takes {}, not {}", path, allowed, request.method), "Method Not Allowed", "", 405));
  refused.status = 405;
  refused.headers.set("Allow", allowed);
  exchange->respond(std::move(refused));
}

}  // namespace kvist::gateway

#include "kvist/gateway/http_front.h"

#include <fmt/format.h>

#include <utility>

#include "kvist/gateway/error_answer.h"

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

void HttpFront::handle(net::HttpRequest request, const std::shared_ptr<net::HttpExchange>& exchange) const {
  const auto path = routes_.find(request.path());
  if (path == routes_.end()) {
    return exchange->respond(error_answer({ErrorCode::kNotFound, fmt::format("no such path: {}", request.path())}));
  }
  const auto& methods = path->second;
  const auto method = methods.find(request.method == "HEAD" ? "GET" : request.method);
  if (method != methods.end()) return method->second(std::move(request), exchange);
  std::string allowed;
  for (const auto& [name, handler] : methods) allowed += (allowed.empty() ? "" : ", ") + name;
  net::HttpResponse response = error_answer(
      {ErrorCode::kInvalidArgument, fmt::format("{} takes {}, not {}", path->first, allowed, request.method)});
  response.status = 405;
  response.headers.set("Allow", allowed);
  exchange->respond(std::move(response));
}

}  // namespace kvist::gateway

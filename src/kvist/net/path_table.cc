#include "kvist/net/path_table.h"

#include <fmt/format.h>

#include <utility>

namespace kvist::net {
namespace {

template <class Table>
std::string keys_of(const Table& table) {
  std::string keys;
  for (const auto& [key, value] : table) keys += (keys.empty() ? "" : ", ") + key;
  return keys;
}

}  // namespace

void PathTable::on(const std::string& method, const std::string& path, Handler handler) {
  paths_[path][method] = std::move(handler);
}

void PathTable::answer(const std::string& method, const std::string& path, Answer answer) {
  on(method, path,
     [answer = std::move(answer)](const HttpRequest& request, const std::shared_ptr<HttpExchange>& exchange) {
       exchange->respond(answer(request));
     });
}

void PathTable::on_rest(std::function<bool(std::string_view path)> takes, Handler handler) {
  takes_rest_ = std::move(takes);
  rest_ = std::move(handler);
}

void PathTable::handle(HttpRequest request, const std::shared_ptr<HttpExchange>& exchange) const {
  const auto path = paths_.find(request.path());
  if (path != paths_.end()) {
    const auto handler = path->second.find(request.method == "HEAD" ? "GET" : request.method);
    if (handler != path->second.end()) return handler->second(std::move(request), exchange);
  }
  if (takes_rest_ && takes_rest_(request.path())) return rest_(std::move(request), exchange);
  if (path == paths_.end()) return exchange->respond(unknown_path(request));
  const std::string allowed = keys_of(path->second);
  HttpResponse refused =
      refuse_(request, 405, fmt::format("{} takes {}, not {}", path->first, allowed, request.method));
  refused.headers.set("Allow", allowed);
  exchange->respond(std::move(refused));
}

HttpResponse PathTable::unknown_path(const HttpRequest& request) const {
  return refuse_(request, 404, fmt::format("no such path: {}; there are {}", request.path(), keys_of(paths_)));
}

}  // namespace kvist::net

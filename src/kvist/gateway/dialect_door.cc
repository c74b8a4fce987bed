#include "kvist/gateway/dialect_door.h"

#include <string>
#include <utility>

#include "kvist/gateway/proxy_headers.h"
#include "kvist/gateway/translated_exchange.h"

namespace kvist::gateway {
namespace {

using dialects::Dialect;

// The key under the name that all workers know; whether they get it is decided with the other credentials.
void rename_key(net::Headers& headers) {
  const auto key = headers.find("X-API-Key");
  if (key && !headers.find("Authorization")) headers.set("Authorization", "Bearer " + std::string(*key));
  headers.remove("X-API-Key");
}

}  // namespace

std::optional<Dialect> dialect_of(const net::HttpRequest& request) {
  if (request.method != "POST") return std::nullopt;
  const std::string_view path = request.path();
  if (path == "/v1/messages") return Dialect::kMessages;
  if (path == "/v1/messages/count_tokens") return Dialect::kCountTokens;
  if (path == "/v1/responses") return Dialect::kResponses;
  return std::nullopt;
}

net::HttpResponse in_form_of(const net::HttpRequest& request, net::HttpResponse error) {
  const auto dialect = dialect_of(request);
  if (!dialect) return error;
  const std::string id(error.headers.find(kRequestIdHeader).value_or(""));
  error.body = dialects::error_body(*dialect, error.status, error.body, id);
  return error;
}

void handle_dialect(Dialect dialect, net::EventLoop& loop, ModelDoor& door, net::HttpRequest request,
                    const std::shared_ptr<net::HttpExchange>& exchange, KeyLease lease) {
  auto translation = dialects::translate(dialect, request.body);
  auto translated = std::make_shared<TranslatedExchange>(
      loop, dialect, translation ? std::move(translation->answer) : nullptr, exchange);
  if (!translation)
    return door.turn_away(std::move(request), std::move(translated), std::move(lease), translation.error());
  request.came_to = std::exchange(request.target, std::string(translation->path));
  request.body = std::move(translation->body);
  request.headers.remove_if([](std::string_view name) {
    return net::equals_no_case(name.substr(0, 10), "anthropic-") || net::equals_no_case(name, "content-type");
  });
  request.headers.add("Content-Type", "application/json");
  rename_key(request.headers);
  if (dialect == Dialect::kCountTokens)
    return door.pass_on(std::move(request), std::move(translated), std::move(lease));
  door.handle(Api::kChat, std::move(request), std::move(translated), std::move(lease));
}

}  // namespace kvist::gateway

#include "kvist/gateway/dialect_door.h"

#include <string>
#include <utility>

#include "kvist/gateway/proxy_headers.h"
#include "kvist/gateway/translated_exchange.h"

namespace kvist::gateway {
namespace {

using dialects::Dialect;

// Puts the key under the name that all workers know. Whether they get it is decided with the other credentials.
void rename_key(net::Headers& headers) {
  const auto key = headers.find("X-API-Key");
  if (key && !headers.find("Authorization")) headers.set("Authorization", "Bearer " + std::string(*key));
  headers.remove("X-API-Key");
}

}  // namespace

std::optional<Dialect> dialect_of(const net::HttpRequest& request) {
  return request.method == "POST" ? dialect_of_path(request.path()) : std::nullopt;
}

std::optional<Dialect> dialect_of_path(std::string_view path) {
  if (path == "/v1/messages") return Dialect::kMessages;
  if (path == "/v1/messages/count_tokens") return Dialect::kCountTokens;
  if (path == "/v1/responses") return Dialect::kResponses;
  return std::nullopt;
}

net::HttpResponse in_form_of(const net::HttpRequest& request, net::HttpResponse error) {
  const auto dialect = dialect_of_path(request.path());
  if (!dialect) return error;
  const std::string id(error.headers.find(kRequestIdHeader).value_or(""));
  add_request_id(*dialect, error.headers);
  error.body = dialects::error_body(*dialect, error.status, error.body, id);
  return error;
}

void DialectDoor::handle(Dialect dialect, net::HttpRequest request, const std::shared_ptr<net::HttpExchange>& exchange,
                         KeyLease lease) {
  Asked asked{dialect, std::move(request), exchange, std::move(lease)};
  if (asked.request.body.size() > kTranslatedOnLoopBytes) return translate_beside(std::move(asked));
  auto translation = dialects::translate(dialect, asked.request.body);
  on_translated(std::move(asked), std::move(translation));
}

void DialectDoor::translate_beside(Asked asked) {
  // Held by pointer, as a function that can be copied cannot hold a lease.
  const auto held = std::make_shared<Asked>(std::move(asked));
  ReadingPool::Work work = [this, held]() -> std::function<void()> {
    const auto translation =
        std::make_shared<Result<dialects::Translation>>(dialects::translate(held->dialect, held->request.body));
    return [this, held, translation] { on_translated(std::move(*held), std::move(*translation)); };
  };
  if (pool_.submit(std::move(work), held->request.body.size())) return;
  on_translated(std::move(*held),
                fail(ErrorCode::kResourceExhausted, "too many requests wait to be translated; try again later"));
}

void DialectDoor::on_translated(Asked asked, Result<dialects::Translation> translation) {
  auto translated = std::make_shared<TranslatedExchange>(
      *loop_, asked.dialect, translation ? std::move(translation->answer) : nullptr, asked.exchange);
  net::HttpRequest& request = asked.request;
  if (!translation)
    return door_->turn_away(std::move(request), std::move(translated), std::move(asked.lease), translation.error());
  request.came_to = std::exchange(request.target, std::string(translation->path));
  request.body = std::move(translation->body);
  request.headers.remove_if([](std::string_view name) {
    return net::equals_no_case(name.substr(0, 10), "anthropic-") || net::equals_no_case(name, "content-type");
  });
  request.headers.add("Content-Type", "application/json");
  rename_key(request.headers);
  if (asked.dialect == Dialect::kCountTokens)
    return door_->pass_on(std::move(request), std::move(translated), std::move(asked.lease));
  door_->handle(Api::kChat, std::move(request), std::move(translated), std::move(asked.lease));
}

}  // namespace kvist::gateway

// Where requests in the APIs of other vendors come in: translated, they are chats like all others.
#pragma once

#include <memory>
#include <optional>

#include "kvist/dialects/dialect.h"
#include "kvist/gateway/key_gate.h"
#include "kvist/gateway/model_door.h"
#include "kvist/net/event_loop.h"
#include "kvist/net/http_server.h"

namespace kvist::gateway {

/// The API that a request is in; nothing for OpenAI's chats and completions and for all that is passed on.
[[nodiscard]] std::optional<dialects::Dialect> dialect_of(const net::HttpRequest& request);

/// An error answer in the form of the API that the request is in.
[[nodiscard]] net::HttpResponse in_form_of(const net::HttpRequest& request, net::HttpResponse error);

/// Translates the request and gives it to its model's proxy; the answer is translated back. A request that cannot be
/// translated is answered here. Threads: the loop's, which is the door's.
void handle_dialect(dialects::Dialect dialect, net::EventLoop& loop, ModelDoor& door, net::HttpRequest request,
                    const std::shared_ptr<net::HttpExchange>& exchange, KeyLease lease);

}  // namespace kvist::gateway

// Where requests in the APIs of other vendors come in: translated, they are chats like all others.
#pragma once

#include <memory>
#include <optional>

#include "kvist/dialects/dialect.h"
#include "kvist/gateway/key_gate.h"
#include "kvist/gateway/proxy.h"
#include "kvist/net/event_loop.h"
#include "kvist/net/http_server.h"

namespace kvist::gateway {

/// The API that a request is in; nothing for OpenAI's chats and completions and for all that is passed on.
[[nodiscard]] std::optional<dialects::Dialect> dialect_of(const net::HttpRequest& request);

/// An error answer in the form of the API that the request is in.
[[nodiscard]] net::HttpResponse in_form_of(const net::HttpRequest& request, net::HttpResponse error);

/// Translates the request and has the proxy handle it; what the proxy answers is translated back. A request that cannot
/// be translated is answered here. Threads: the loop's, which is the proxy's.
void handle_dialect(dialects::Dialect dialect, net::EventLoop& loop, Proxy& proxy, net::HttpRequest request,
                    const std::shared_ptr<net::HttpExchange>& exchange, KeyLease lease);

}  // namespace kvist::gateway

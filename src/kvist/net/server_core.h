// Private to net: the state that the connections of a server share.
#pragma once

#include <deque>
#include <memory>
#include <unordered_set>

#include "kvist/net/body_budget.h"
#include "kvist/net/body_decompressor.h"
#include "kvist/net/http_server.h"
#include "kvist/net/idle_connections.h"
#include "kvist/net/receive_stamps.h"
#include "kvist/net/server_connection.h"
#include "kvist/net/socket.h"

namespace kvist::net {

/// Options, handler and the set of live connections. Owned by the server and by each connection. The cycle of
/// references is broken when a connection closes or the server is destroyed. Threads: the loop's.
class ServerCore {
 public:
  ServerCore(HttpServerOptions server_options, HttpHandler server_handler)
      : options(std::move(server_options)),
        handler(std::move(server_handler)),
        bodies(std::make_shared<BodyBudget>(options.max_bodies_bytes)),
        stamping(options.stamp_reads ? ReceiveStamps::keep_stamping() : UniqueFd()) {}

  const HttpServerOptions options;
  const HttpHandler handler;
  const std::shared_ptr<BodyBudget> bodies;  // of all requests whose answers are not complete
  const UniqueFd stamping;                   // with stamp_reads: ReceiveStamps::keep_stamping()
  bool closing = false;                      // each answer ends its connection
  bool ended = false;                        // the server is destroyed
  BodyDecompressor decompressor;             // of large bodies
  HttpServerReport counts;                   // what is open now is not in it
  IdleConnections idle;                      // those that make room for others
  std::unordered_set<std::shared_ptr<ServerConnection>> connections;
  /// Those beyond max_connections, the oldest first; some may be closed.
  std::deque<std::weak_ptr<ServerConnection>> reserved;
};

}  // namespace kvist::net

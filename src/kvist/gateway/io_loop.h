// One of several threads that take requests and relay answers.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <thread>

#include "kvist/base/slot_table.h"
#include "kvist/gateway/proxy.h"
#include "kvist/gateway/remote_channel.h"
#include "kvist/net/event_loop.h"
#include "kvist/net/http_client.h"
#include "kvist/net/http_server.h"

namespace kvist::gateway {

/// A loop with a thread, a listening socket, connections and a proxy of its own. It handles chats, completions and
/// requests that are passed on. All other requests (health, metrics, administration, lists of models) are forwarded to
/// the routing thread, which answers them. Threads: created, started and destroyed by the routing thread, which reaches
/// everything else through run().
class IoLoop {
 public:
  struct Options {
    Proxy::Options proxy;
    net::HttpClientOptions client;
    net::HttpServerOptions server;
  };
  /// The requests that the routing thread answers.
  struct Front {
    KeyGate* keys = nullptr;  ///< asks requests for their key; null: they need none
    std::function<bool(const net::HttpRequest&)> is_passed_on;
    std::function<void(net::HttpRequest, const std::shared_ptr<net::HttpExchange>&)> answer;
  };

  /// Creates the loop and listens. Requires: the other arguments outlive it.
  [[nodiscard]] static Result<std::unique_ptr<IoLoop>> create(Options options, std::shared_ptr<RoutingThread> routing,
                                                              const PromptReader& reader,
                                                              const std::vector<spec::UpstreamSpec>& workers,
                                                              Front front);
  /// Drops the requests under way without answering clients or informing routing.
  ~IoLoop();
  IoLoop(const IoLoop&) = delete;
  IoLoop& operator=(const IoLoop&) = delete;

  void start();
  [[nodiscard]] std::uint16_t port() const { return port_; }
  /// Has the loop send all queued messages to routing, and then call `work` with its proxy.
  void run(std::function<void(Proxy&)> work);
  /// From here on each answer ends its connection.
  void drain();
  /// Has routing's thread call `done` when clients were sent all that was written until now.
  void when_sent(std::function<void()> done);

 private:
  class ForwardedExchange;
  /// Lives on the loop.
  struct Parts;

  IoLoop(Options options, std::shared_ptr<RoutingThread> routing, const PromptReader& reader,
         const std::vector<spec::UpstreamSpec>& workers, Front front);
  void handle(net::HttpRequest request, const std::shared_ptr<net::HttpExchange>& exchange);
  void handle_admitted(net::HttpRequest request, const std::shared_ptr<net::HttpExchange>& exchange, KeyLease lease);
  void forward(net::HttpRequest request, const std::shared_ptr<net::HttpExchange>& exchange, KeyLease lease);

  std::shared_ptr<RoutingThread> routing_;
  Front front_;
  net::EventLoop loop_;
  std::unique_ptr<Parts> parts_;
  std::uint16_t port_ = 0;
  std::thread thread_;
};

}  // namespace kvist::gateway

// One of several threads that take requests and relay answers.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <thread>

#include "kvist/base/slot_table.h"
#include "kvist/gateway/proxy.h"
#include "kvist/gateway/remote_desk.h"
#include "kvist/net/event_loop.h"
#include "kvist/net/http_client.h"
#include "kvist/net/http_server.h"

namespace kvist::gateway {

/// A loop with a thread, a listening socket, connections and a proxy of its own. What is neither a chat, a completion
/// nor passed on (health, metrics, administration, lists of models) is answered by the thread of routing. Made, started
/// and destroyed by that thread; all else of it goes through run().
class IoLoop {
 public:
  struct Options {
    Proxy::Options proxy;
    net::HttpClientOptions client;
    net::HttpServerOptions server;
  };
  /// What is answered by the thread of routing, and there.
  struct Front {
    std::function<bool(const net::HttpRequest&)> is_passed_on;
    std::function<void(net::HttpRequest, const std::shared_ptr<net::HttpExchange>&)> answer;
  };

  /// Listens. The others outlive it.
  [[nodiscard]] static Result<std::unique_ptr<IoLoop>> create(Options options, std::shared_ptr<RoutingThread> routing,
                                                              const PromptReader& reader,
                                                              const std::vector<spec::UpstreamSpec>& workers,
                                                              Front front);
  /// Ends what is under way, without a word to clients or routing.
  ~IoLoop();
  IoLoop(const IoLoop&) = delete;
  IoLoop& operator=(const IoLoop&) = delete;

  void start();
  [[nodiscard]] std::uint16_t port() const { return port_; }
  /// Has the loop call `work` with its proxy, soon, and tells routing before all that it has to tell.
  void run(std::function<void(Proxy&)> work);
  /// Stops listening; answers under way go on.
  void close();

 private:
  class ForwardedExchange;
  /// Lives on the loop.
  struct Parts;

  IoLoop(Options options, std::shared_ptr<RoutingThread> routing, const PromptReader& reader,
         const std::vector<spec::UpstreamSpec>& workers, Front front);
  void handle(net::HttpRequest request, const std::shared_ptr<net::HttpExchange>& exchange);
  void forward(net::HttpRequest request, const std::shared_ptr<net::HttpExchange>& exchange);

  std::shared_ptr<RoutingThread> routing_;
  Front front_;
  net::EventLoop loop_;
  std::unique_ptr<Parts> parts_;
  std::uint16_t port_ = 0;
  std::thread thread_;
};

}  // namespace kvist::gateway

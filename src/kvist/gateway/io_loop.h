// One of several threads that take requests and relay answers.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "kvist/base/id.h"
#include "kvist/base/slot_table.h"
#include "kvist/gateway/model_door.h"
#include "kvist/gateway/proxy.h"
#include "kvist/gateway/remote_channel.h"
#include "kvist/net/event_loop.h"
#include "kvist/net/http_client.h"
#include "kvist/net/http_server.h"

namespace kvist::gateway {

/// The thread that routes, as others see it. They may only post to its loop.
struct RoutingHome {
  net::EventLoop* loop = nullptr;
  bool open = true;  ///< false after the end of routing; only for the routing thread
};

/// One of several loops with a thread, a listening socket and connections of its own, and for each model a proxy and a
/// channel to the model's routing. It handles chats, completions and requests that are passed on. All other requests
/// (health, metrics, administration, lists of models) are forwarded to the routing thread, which answers them. Threads:
/// the routing thread creates, starts and destroys it, and reaches everything else through its functions, whose work is
/// done in the order of the calls.
class IoLoop {
 public:
  struct Options {
    net::HttpClientOptions client;
    net::HttpServerOptions server;
    RequestReporter* reporter = nullptr;  ///< null: no one is told of requests
  };
  /// The requests that the routing thread answers.
  struct Front {
    KeyGate* keys = nullptr;  ///< asks requests for their key; null: they need none
    std::function<bool(const net::HttpRequest&)> is_passed_on;
    std::function<void(net::HttpRequest, const std::shared_ptr<net::HttpExchange>&)> answer;
  };
  /// What the loop has to know of a model. Requires: the reader stays until remove_model() or the loop's end.
  struct Model {
    std::shared_ptr<RoutingThread> routing;
    const PromptReader* reader = nullptr;
    Proxy::Options proxy;
    std::vector<spec::UpstreamSpec> workers;  ///< by WorkerId; the client has their settings
    FleetReadings readings;
  };

  /// Creates the loop and listens. Requires: the other arguments outlive it.
  [[nodiscard]] static Result<std::unique_ptr<IoLoop>> create(Options options, std::shared_ptr<RoutingHome> home,
                                                              Front front);
  /// Drops the requests under way without answering clients or informing routing.
  ~IoLoop();
  IoLoop(const IoLoop&) = delete;
  IoLoop& operator=(const IoLoop&) = delete;

  void start();
  [[nodiscard]] std::uint16_t port() const { return port_; }
  /// Opens the door to a model. Requests find it when set_names() has its name.
  void add_model(ModelId id, Model model);
  /// Closes the door to a model, all of whose requests are over. Ensures: before `then` is called on the routing
  /// thread, everything that the loop had to tell the model's routing has come.
  void remove_model(ModelId id, std::function<void()> then);
  void set_names(std::shared_ptr<const ModelNames> names);
  /// Has the loop send all queued messages to the model's routing, and then call `work` with its proxy.
  void run(ModelId model, std::function<void(Proxy&)> work);
  /// Has the loop call `work` with its door and its listener.
  void run(std::function<void(const ModelDoor&, const net::HttpServer&)> work);
  /// From here on each answer ends its connection.
  void drain();
  /// Has routing's thread call `done` when clients were sent all that was written until now.
  void when_sent(std::function<void()> done);

 private:
  class ForwardedExchange;
  /// Lives on the loop.
  struct Parts;

  IoLoop(Options options, std::shared_ptr<RoutingHome> home, Front front);
  /// Does `work` at once if the loop does not run yet, otherwise on the loop.
  void on_loop(std::function<void()> work);
  void handle(net::HttpRequest request, const std::shared_ptr<net::HttpExchange>& exchange);
  void handle_admitted(net::HttpRequest request, const std::shared_ptr<net::HttpExchange>& exchange, KeyLease lease);
  void forward(net::HttpRequest request, const std::shared_ptr<net::HttpExchange>& exchange, KeyLease lease);

  std::shared_ptr<RoutingHome> home_;
  Front front_;
  net::EventLoop loop_;
  std::unique_ptr<Parts> parts_;
  std::uint16_t port_ = 0;
  std::thread thread_;
};

}  // namespace kvist::gateway

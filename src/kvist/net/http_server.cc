#include "kvist/net/http_server.h"

#include <algorithm>
#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/ip/basic_resolver.hpp>
#include <utility>
#include <vector>

#include "kvist/net/loop_impl.h"
#include "kvist/net/server_connection.h"
#include "kvist/net/server_core.h"

namespace kvist::net {

namespace {

using Acceptor = asio::basic_socket_acceptor<Tcp, LoopExecutor>;

// Out of file descriptors, accepting fails at once, again and again: wait instead of spinning.
constexpr Duration kAcceptPause = std::chrono::milliseconds(100);

Error cannot_listen(const HttpServerOptions& options, const error_code& error) {
  return Error{ErrorCode::kUnavailable,
               "cannot listen on " + options.host + ":" + std::to_string(options.port) + ": " + error.message()};
}

Result<Tcp::endpoint> resolve(LoopImpl& loop, const HttpServerOptions& options) {
  error_code error;
  const auto address = asio::ip::make_address(options.host, error);
  if (!error) return Tcp::endpoint(address, options.port);
  asio::ip::basic_resolver<Tcp, LoopExecutor> resolver(loop.io.get_executor());
  const auto found = resolver.resolve(options.host, std::to_string(options.port), error);
  if (error) return std::unexpected(cannot_listen(options, error));
  return found.begin()->endpoint();
}

/// Accepts, and looks after the deadlines of all connections with one timer: a timer per connection would be touched
/// with every request.
class Listener : public std::enable_shared_from_this<Listener> {
 public:
  Listener(LoopImpl& loop, HttpServerOptions options, HttpHandler handler)
      : loop_(loop),
        core_(std::make_shared<ServerCore>(std::move(options), std::move(handler))),
        acceptor_(loop.io.get_executor()),
        sweep_timer_(loop.io.get_executor()),
        accept_timer_(loop.io.get_executor()),
        sweep_period_(std::clamp<Duration>(core_->options.idle_timeout / 4, std::chrono::milliseconds(10),
                                           std::chrono::seconds(1))) {}

  Result<void> open() {
    KVIST_TRY(const Tcp::endpoint endpoint, resolve(loop_, core_->options));
    error_code error;
    acceptor_.open(endpoint.protocol(), error);
    if (!error) acceptor_.set_option(Acceptor::reuse_address(true), error);
    if (!error) acceptor_.bind(endpoint, error);
    if (!error) acceptor_.listen(Acceptor::max_listen_connections, error);
    if (!error) port_ = acceptor_.local_endpoint(error).port();
    if (error) return std::unexpected(cannot_listen(core_->options, error));
    accept();
    return {};
  }

  void close() {
    core_->closing = true;
    error_code ignored;
    acceptor_.close(ignored);
    accept_timer_.cancel();
    for (const auto& connection : live()) connection->close_when_idle();
  }

  /// The server is destroyed: ends everything, without a word to the service.
  void end() {
    close();
    sweep_timer_.cancel();
    for (const auto& connection : live()) connection->drop();
  }

  [[nodiscard]] std::uint16_t port() const { return port_; }
  [[nodiscard]] std::size_t connections() const { return core_->connections.size(); }

 private:
  using Connections = std::vector<std::shared_ptr<ServerConnection>>;
  /// A copy: closing one takes it out of the set.
  [[nodiscard]] Connections live() const { return {core_->connections.begin(), core_->connections.end()}; }

  void accept() {
    acceptor_.async_accept(loop_.io.get_executor(),
                           [self = shared_from_this()](const error_code& error, Socket socket) {
                             if (self->core_->closing) return;
                             if (error) return self->pause_accepting();
                             self->take(std::move(socket));
                             self->accept();
                           });
  }

  void pause_accepting() {
    accept_timer_.expires_after(kAcceptPause);
    accept_timer_.async_wait([self = shared_from_this()](const error_code& error) {
      if (!error && !self->core_->closing) self->accept();
    });
  }

  void take(Socket socket) {
    if (core_->connections.size() >= core_->options.max_connections) return;  // closed with `socket`
    const auto connection = std::make_shared<ServerConnection>(loop_, std::move(socket), core_);
    core_->connections.insert(connection);
    connection->begin();
    if (!std::exchange(sweeping_, true)) sweep_later();
  }

  void sweep_later() {
    sweep_timer_.expires_after(sweep_period_);
    sweep_timer_.async_wait([self = shared_from_this()](const error_code& error) {
      if (error) return;
      const TimePoint at = now();
      for (const auto& connection : self->live()) {
        if (!connection->closed()) connection->check_deadline(at);
      }
      if (self->core_->connections.empty()) {
        self->sweeping_ = false;
      } else {
        self->sweep_later();
      }
    });
  }

  LoopImpl& loop_;
  std::shared_ptr<ServerCore> core_;
  Acceptor acceptor_;
  SteadyTimer sweep_timer_;
  SteadyTimer accept_timer_;
  Duration sweep_period_;
  std::uint16_t port_ = 0;
  bool sweeping_ = false;
};

class Server final : public HttpServer {
 public:
  explicit Server(std::shared_ptr<Listener> listener) : listener_(std::move(listener)) {}
  ~Server() override { listener_->end(); }
  [[nodiscard]] std::uint16_t port() const override { return listener_->port(); }
  void close() override { listener_->close(); }
  [[nodiscard]] std::size_t connections() const override { return listener_->connections(); }

 private:
  std::shared_ptr<Listener> listener_;
};

}  // namespace

Result<std::unique_ptr<HttpServer>> HttpServer::listen(EventLoop& loop, HttpServerOptions options,
                                                       HttpHandler handler) {
  auto listener = std::make_shared<Listener>(loop.impl(), std::move(options), std::move(handler));
  KVIST_TRY_VOID(listener->open());
  return std::make_unique<Server>(std::move(listener));
}

}  // namespace kvist::net

#include "kvist/net/http_server.h"

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "kvist/net/connections_by_address.h"
#include "kvist/net/loop_impl.h"
#include "kvist/net/server_connection.h"
#include "kvist/net/server_core.h"
#include "kvist/net/tls.h"
#include "kvist/net/tls_session.h"

namespace kvist::net {

namespace {

// Without free file descriptors, accepting fails at once again and again. So it waits instead of spinning.
constexpr Duration kAcceptPause = std::chrono::milliseconds(100);

// The most connections that are accepted in one turn of the loop, so that existing ones get their turn in between.
constexpr int kAcceptedAtOnce = 64;

// Of so many connections that have been idle longest one is sought that nothing has come from meanwhile.
constexpr std::size_t kAskedToMakeRoom = 16;

Error cannot_listen(const HttpServerOptions& options, const std::string& why) {
  return Error{ErrorCode::kUnavailable,
               "cannot listen on " + options.host + ":" + std::to_string(options.port) + ": " + why};
}

Result<Endpoint> resolve(const HttpServerOptions& options) {
  if (const auto endpoint = numeric_endpoint(options.host, options.port)) return *endpoint;
  KVIST_TRY(const std::vector<Endpoint> found, resolve_blocking(options.host, options.port));
  return found.front();
}

Duration shortest_timeout(const HttpServerOptions& options) {
  return std::min({options.idle_timeout, options.head_timeout, options.body_timeout});
}

/// Accepts connections and checks the deadlines of all of them with one timer, because a timer per connection would
/// have to be re-armed with every request.
class Listener final : public Watched {
 public:
  Listener(LoopImpl& loop, HttpServerOptions options, HttpHandler handler)
      : Watched(loop),
        core_(std::make_shared<ServerCore>(std::move(options), std::move(handler))),
        sweep_timer_(loop.timers()),
        accept_timer_(loop.timers()),
        sweep_period_(std::clamp<Duration>(shortest_timeout(core_->options) / 4, std::chrono::milliseconds(10),
                                           std::chrono::seconds(1))) {}
  ~Listener() override { forget(); }

  Result<void> open() {
    const HttpServerOptions& options = core_->options;
    const auto endpoint = resolve(options);
    if (!endpoint) return std::unexpected(cannot_listen(options, endpoint.error().message));
    auto socket = listen_on(*endpoint, options.shared_port);
    if (!socket) return std::unexpected(cannot_listen(options, socket.error().message));
    socket_ = *std::move(socket);
    port_ = local_port(socket_.get());
    watch(socket_.get());
    return {};
  }

  void drain() { core_->closing = true; }

  /// Each connection with something to send holds the pointer; the last one to let go of it calls `done`.
  void when_sent(std::function<void()> done) {
    const auto call = [weak = std::weak_ptr(core_), &loop = loop(), work = std::move(done)](void*) mutable {
      loop.post([core = weak, call_now = std::move(work)] {
        if (const auto still = core.lock(); still && !still->ended) call_now();
      });
    };
    const std::shared_ptr<void> held(core_.get(), call);
    for (const auto& connection : core_->connections) connection->hold_until_sent(held);
  }

  void close() {
    core_->closing = true;
    forget();
    socket_.reset();
    accept_timer_.cancel();
    for (const auto& connection : live()) connection->close_when_idle();
  }

  /// The server is being destroyed: closes everything, without calling the service.
  void end() {
    core_->ended = true;
    close();
    sweep_timer_.cancel();
    for (const auto& connection : live()) connection->drop();
  }

  [[nodiscard]] std::uint16_t port() const { return port_; }
  [[nodiscard]] std::size_t connections() const { return core_->connections.size(); }
  [[nodiscard]] HttpServerReport report() {
    HttpServerReport report = core_->counts;
    report.connections = connections();
    report.idle = core_->idle.size();
    report.reserved = live_reserved();
    return report;
  }

 private:
  using Connections = std::vector<std::shared_ptr<ServerConnection>>;
  /// A copy, because a connection that is closed leaves the set.
  [[nodiscard]] Connections live() const { return {core_->connections.begin(), core_->connections.end()}; }

  void on_ready() override {
    for (int i = 0; i < kAcceptedAtOnce; ++i) {
      Endpoint peer;
      peer.length = sizeof(peer.address);
      UniqueFd socket(::accept4(socket_.get(), reinterpret_cast<sockaddr*>(&peer.address), &peer.length,
                                SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (!socket.valid()) return on_accept_failed(errno);
      take(std::move(socket), address_key(peer));
    }
    call_soon();
  }

  void on_accept_failed(int error) {
    if (error == EAGAIN || error == EWOULDBLOCK) return;
    const bool of_the_client = error == EINTR || error == ECONNABORTED || error == EPROTO || error == EPERM;
    if (of_the_client) return call_soon();
    accept_timer_.arm(now() + kAcceptPause, [this] { call_soon(); });
  }

  /// The destructor of `socket` closes it, if it is not taken.
  void take(UniqueFd socket, AddressKey address) {
    ConnectionsByAddress* const by_address = core_->options.by_address.get();
    // First, so that who has no place left cannot have others' taken away.
    if (by_address != nullptr && !by_address->enter(address)) {
      ++core_->counts.over_address_bound;
      return;
    }
    const bool full = core_->connections.size() - live_reserved() >= core_->options.max_connections;
    const bool reserved = full && !close_longest_idle();
    if (reserved && !make_room()) {
      ++core_->counts.without_a_place;
      if (by_address != nullptr) by_address->leave(address);
      return;
    }
    auto tls = core_->options.tls ? core_->options.tls->accept(socket.get()) : nullptr;
    const auto connection =
        std::make_shared<ServerConnection>(loop(), std::move(socket), core_, address, reserved, std::move(tls));
    core_->connections.insert(connection);
    if (reserved) core_->reserved.push_back(connection);
    connection->begin();
    if (!std::exchange(sweeping_, true)) sweep_later();
  }

  /// Whether there was one. So who only holds places cannot keep others away.
  bool close_longest_idle() {
    const auto may_go = [](IdleLink& link) { return static_cast<ServerConnection&>(link).may_make_room(); };
    IdleLink* const longest = core_->idle.longest(kAskedToMakeRoom, may_go);
    if (longest == nullptr) return false;
    static_cast<ServerConnection*>(longest)->drop();
    ++core_->counts.closed_for_others;
    return true;
  }

  [[nodiscard]] std::size_t live_reserved() {
    if (core_->reserved.empty()) return 0;
    std::erase_if(core_->reserved, [](const auto& weak) {
      const auto connection = weak.lock();
      return !connection || connection->closed();
    });
    return core_->reserved.size();
  }

  /// Whether a reserved place is free, or could be freed: the oldest connection that has not sent a whole request makes
  /// room, so that who only holds the places cannot keep others away.
  bool make_room() {
    if (core_->options.reserved_connections == 0) return false;
    if (core_->reserved.size() < core_->options.reserved_connections) return true;
    return drop_oldest(&ServerConnection::awaits_request) || drop_oldest(&ServerConnection::has_answered);
  }
  bool drop_oldest(bool (ServerConnection::*in_state)() const) {
    for (const auto& weak : core_->reserved) {
      const auto oldest = weak.lock();
      if (!oldest || oldest->closed() || !(*oldest.*in_state)()) continue;
      oldest->drop();
      return true;
    }
    return false;
  }

  void sweep_later() {
    sweep_timer_.arm(now() + sweep_period_, [this] { sweep(); });
  }
  void sweep() {
    const TimePoint at = now();
    for (const auto& connection : live()) {
      if (!connection->closed()) connection->check_deadline(at);
    }
    if (core_->connections.empty()) {
      sweeping_ = false;
    } else {
      sweep_later();
    }
  }

  std::shared_ptr<ServerCore> core_;
  UniqueFd socket_;
  TimerNode sweep_timer_;
  TimerNode accept_timer_;
  Duration sweep_period_;
  std::uint16_t port_ = 0;
  bool sweeping_ = false;
};

class Server final : public HttpServer {
 public:
  explicit Server(std::unique_ptr<Listener> listener) : listener_(std::move(listener)) {}
  ~Server() override { listener_->end(); }
  [[nodiscard]] std::uint16_t port() const override { return listener_->port(); }
  void drain() override { listener_->drain(); }
  void when_sent(std::function<void()> done) override { listener_->when_sent(std::move(done)); }
  void close() override { listener_->close(); }
  [[nodiscard]] std::size_t connections() const override { return listener_->connections(); }
  [[nodiscard]] HttpServerReport report() const override { return listener_->report(); }

 private:
  std::unique_ptr<Listener> listener_;
};

}  // namespace

Result<std::unique_ptr<HttpServer>> HttpServer::listen(EventLoop& loop, HttpServerOptions options,
                                                       HttpHandler handler) {
  auto listener = std::make_unique<Listener>(loop.impl(), std::move(options), std::move(handler));
  KVIST_TRY_VOID(listener->open());
  return std::make_unique<Server>(std::move(listener));
}

}  // namespace kvist::net

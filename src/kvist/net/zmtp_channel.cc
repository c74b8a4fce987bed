#include "kvist/net/zmtp_channel.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace kvist::net {

namespace {

// Without free file descriptors, accepting fails at once again and again. So it waits instead of spinning.
constexpr Duration kAcceptPause = std::chrono::milliseconds(100);

Endpoint unix_endpoint(const std::string& path) {
  Endpoint endpoint;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  std::memcpy(&endpoint.address, &address, sizeof(address));
  endpoint.length = sizeof(address);
  return endpoint;
}

}  // namespace

/// Takes the peers that connect to us.
class ZmtpChannel::Acceptor final : public Watched {
 public:
  Acceptor(LoopImpl& loop, UniqueFd socket, ZmtpChannel& owner)
      : Watched(loop), socket_(std::move(socket)), owner_(owner), timer_(loop.timers()) {
    watch_reading(socket_.get());
    call_soon();
  }
  ~Acceptor() override { forget(); }
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

 private:
  void on_ready() override {
    while (true) {
      UniqueFd peer(::accept4(socket_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (peer.valid()) {
        if (owner_.connections_.size() < kMostPeers) owner_.adopt(std::move(peer));
        continue;
      }
      if (errno == EINTR || errno == ECONNABORTED) continue;
      if (errno != EAGAIN && errno != EWOULDBLOCK) timer_.arm(now() + kAcceptPause, [this] { call_soon(); });
      return;
    }
  }

  UniqueFd socket_;
  ZmtpChannel& owner_;
  TimerNode timer_;
};

ZmtpChannel::ZmtpChannel(ZmtpEndpoint endpoint, ZmtpRole role, Handlers handlers)
    : endpoint_(std::move(endpoint)),
      role_(std::move(role)),
      handlers_(std::move(handlers)),
      delay_(std::hash<std::string>()(endpoint_.host + endpoint_.path) + endpoint_.port) {}

ZmtpChannel::~ZmtpChannel() {
  stop();
}

Result<void> ZmtpChannel::open() {
  if (!endpoint_.listens) return {};
  // One socket for both families where the system has IPv6, which takes connections of IPv4 as well.
  for (const char* const any : {"::", "0.0.0.0"}) {
    const auto address = numeric_endpoint(any, endpoint_.port);
    if (!address) continue;
    auto socket = listen_on(*address, false);
    if (!socket && any[0] == ':') continue;
    KVIST_TRY(listening_, std::move(socket));
    return {};
  }
  return fail(ErrorCode::kUnavailable, "no address to listen on");
}

void ZmtpChannel::start(LoopImpl& loop) {
  loop_ = &loop;
  timer_ = std::make_unique<TimerNode>(loop.timers());
  if (endpoint_.listens) {
    acceptor_ = std::make_unique<Acceptor>(loop, std::move(listening_), *this);
  } else {
    connect();
  }
}

void ZmtpChannel::stop() {
  acceptor_.reset();
  timer_.reset();
  connecting_.reset();
  for (const auto& connection : connections_) connection->close();
  connections_.clear();
}

void ZmtpChannel::send(std::string bytes) {
  for (const auto& connection : connections_) {
    if (!connection->up()) continue;
    (void)connection->send_bytes(bytes);
    return;
  }
  waiting_ = std::move(bytes);
}

void ZmtpChannel::connect() {
  addresses_.clear();
  next_address_ = 0;
  if (!endpoint_.path.empty()) {
    addresses_.push_back(unix_endpoint(endpoint_.path));
    return connect_next();
  }
  if (const auto address = numeric_endpoint(endpoint_.host, endpoint_.port)) {
    addresses_.push_back(*address);
    return connect_next();
  }
  loop_->resolver().resolve(endpoint_.host, endpoint_.port,
                            [weak = weak_from_this()](Result<std::vector<Endpoint>> found) {
                              const auto self = weak.lock();
                              if (!self || self->timer_ == nullptr) return;
                              if (found) {
                                self->addresses_ = *std::move(found);
                              } else {
                                self->problem_ = found.error().message;
                              }
                              self->connect_next();
                            });
}

void ZmtpChannel::connect_next() {
  while (next_address_ < addresses_.size()) {
    auto socket = start_connect(addresses_[next_address_++]);
    if (!socket) {
      problem_ = socket.error().message;
      continue;
    }
    connecting_ = std::make_unique<PendingConnect>(*loop_, *std::move(socket),
                                                   [this](UniqueFd connected) { on_connected(std::move(connected)); });
    return timer_->arm(now() + kConnectTime, [this] {
      problem_ = "no connection in time";
      connecting_.reset();
      connect_next();
    });
  }
  fail_attempt(problem_);
  retry(Duration(), false);
}

void ZmtpChannel::fail_attempt(const std::string& why) {
  if (handlers_.on_failed) handlers_.on_failed(why);
}

void ZmtpChannel::on_connected(UniqueFd socket) {
  timer_->cancel();
  connecting_.reset();
  if (const int error = connect_error(socket.get()); error != 0) {
    problem_ = error_text(error);
    return connect_next();
  }
  adopt(std::move(socket));
}

void ZmtpChannel::adopt(UniqueFd socket) {
  auto slot = std::make_shared<std::weak_ptr<ZmtpConnection>>();
  const auto connection = std::make_shared<ZmtpConnection>(
      *loop_, std::move(socket), role_,
      ZmtpConnection::Handlers{
          .on_up = [this, slot] { on_up(*slot->lock()); },
          .on_message = [this](ZmtpMessage& frames) { handlers_.on_message(frames); },
          .on_down = [this, slot](const std::string& why, bool broken) { on_down(slot->lock(), why, broken); }});
  *slot = connection;
  connections_.insert(connection);
  connection->start();
}

void ZmtpChannel::on_up(ZmtpConnection& connection) {
  if (!waiting_.empty()) (void)connection.send_bytes(std::exchange(waiting_, {}));
  if (handlers_.on_up) handlers_.on_up();
}

void ZmtpChannel::on_down(const std::shared_ptr<ZmtpConnection>& connection, const std::string& why, bool broken) {
  connections_.erase(connection);
  loop_->post([connection] {});  // it is in the middle of a call
  const Duration stood_for = connection->stood_for();
  if (broken && handlers_.on_broken) handlers_.on_broken(why);
  // Where peers connect to us, one may have come back before the end of its last connection was noticed.
  const bool other_up =
      std::ranges::any_of(connections_, &ZmtpConnection::up, &std::shared_ptr<ZmtpConnection>::operator*);
  if (stood_for > Duration() && !other_up && handlers_.on_down) handlers_.on_down(why);
  if (endpoint_.listens) return;
  if (stood_for == Duration()) fail_attempt(broken ? why : why + " in the handshake");
  retry(stood_for, broken);
}

void ZmtpChannel::retry(Duration stood_for, bool broken) {
  timer_->arm(now() + delay_.next(stood_for, broken), [this] { connect(); });
}

}  // namespace kvist::net

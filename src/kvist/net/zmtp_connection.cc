#include "kvist/net/zmtp_connection.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <utility>

#include "kvist/net/zmtp_encoder.h"

namespace kvist::net {

namespace {

// Notices a host that vanished, of a peer that answers no PING: after 20 s without a packet, 3 questions in 15 s.
void keep_alive(int fd) {
  const auto set = [fd](int level, int option, int value) {
    (void)::setsockopt(fd, level, option, &value, sizeof(value));
  };
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 20);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
}

UniqueFd kept_alive(UniqueFd socket) {
  keep_alive(socket.get());
  return socket;
}

}  // namespace

ZmtpConnection::ZmtpConnection(LoopImpl& loop, UniqueFd socket, const ZmtpRole& role, Handlers handlers)
    : TcpConnection(loop, kept_alive(std::move(socket))),
      hello_(zmtp_handshake(role.socket_type)),
      first_bytes_(role.first_bytes),
      handlers_(std::move(handlers)),
      decoder_(role.peer_types),
      timer_(loop.timers()),
      heartbeat_(now()) {}

void ZmtpConnection::start() {
  heartbeat_.on_sign(now());
  if (!send({hello_})) return give_up("sending failed", false);
  start_read();
  beat();
}

bool ZmtpConnection::send_bytes(std::string_view bytes) {
  return unsent() + bytes.size() <= kMostUnsent && send({bytes});
}

void ZmtpConnection::on_read(std::string_view bytes) {
  heartbeat_.on_sign(now());
  if (const auto fed = decoder_.feed(bytes, *this); !fed) return give_up(fed.error().message, true);
  if (!closed()) start_read();
}

void ZmtpConnection::on_read_failed(bool end, const std::string& why) {
  give_up(end ? "it closed the connection" : why, false);
}

void ZmtpConnection::on_handshake(bool heartbeats) {
  if (closed()) return;
  if (!first_bytes_.empty() && !send({first_bytes_})) return give_up("sending failed", false);
  up_since_ = now();
  if (!heartbeats) timer_.cancel();
  handlers_.on_up();
}

void ZmtpConnection::on_message(ZmtpMessage& frames) {
  if (!closed()) handlers_.on_message(frames);
}

void ZmtpConnection::on_ping(std::string_view context) {
  if (!closed() && !send_bytes(zmtp_pong(context))) give_up("it reads nothing", true);
}

void ZmtpConnection::beat() {
  switch (heartbeat_.act(now())) {
    case Heartbeat::Act::kNothing:
      break;
    case Heartbeat::Act::kAsk:
      // The PONG, or anything else that it sends, is the sign. Before the end of the handshake that itself is.
      if (up() && !send_bytes(zmtp_ping())) return give_up("it reads nothing", true);
      break;
    case Heartbeat::Act::kGiveUp:
      return give_up(fmt::format("no sign of life for {} s", Heartbeat::kSilence / std::chrono::seconds(1)), false);
  }
  timer_.arm(now() + Heartbeat::kInterval, [this] { beat(); });
}

void ZmtpConnection::give_up(const std::string& why, bool broken) {
  if (closed()) return;
  timer_.cancel();
  close();
  handlers_.on_down(why, broken);
}

}  // namespace kvist::net

#include "kvist/net/port_probe.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <iterator>
#include <string>
#include <utility>

#include "kvist/net/event_loop.h"
#include "kvist/net/socket.h"
#include "kvist/net/zmtp_decoder.h"
#include "kvist/net/zmtp_encoder.h"
#include "kvist/net/zmtp_endpoint.h"

namespace kvist::net {
namespace {

/// Waits until the socket is ready. Errors: the deadline passed.
Result<void> await(int fd, short events, TimePoint deadline) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - now()).count();
  pollfd ready{.fd = fd, .events = events, .revents = 0};
  if (left > 0 && ::poll(&ready, 1, static_cast<int>(left)) > 0) return {};
  return fail(ErrorCode::kDeadlineExceeded, "nothing came in time");
}

Result<Endpoint> endpoint_of(const std::string& host, std::uint16_t port) {
  if (const auto numeric = numeric_endpoint(host, port)) return *numeric;
  KVIST_TRY(const auto found, resolve_blocking(host, port));
  return found.front();
}

constexpr std::size_t kZmtpGreetingBytes = 64;

struct Handshake final : ZmtpDecoder::Sink {
  void on_handshake(bool /*heartbeats*/) override { over = true; }
  void on_message(ZmtpMessage& /*frames*/) override {}
  void on_ping(std::string_view /*context*/) override {}
  bool over = false;
};

}  // namespace

Result<void> probe_listen(const std::string& host, std::uint16_t port) {
  if (port == 0) return {};
  KVIST_TRY(const Endpoint endpoint, endpoint_of(host, port));
  KVIST_TRY([[maybe_unused]] const UniqueFd socket, listen_on(endpoint, false));
  return {};
}

Result<void> probe_zmq(std::string_view address, std::vector<std::string_view> peer_types, Duration timeout) {
  const TimePoint deadline = now() + timeout;
  KVIST_TRY(const ZmtpEndpoint peer, parse_zmtp_endpoint(address));
  if (peer.host.empty()) return {};
  KVIST_TRY(const Endpoint endpoint, endpoint_of(peer.host, peer.port));
  KVIST_TRY(const UniqueFd socket, start_connect(endpoint));
  KVIST_TRY_VOID(await(socket.get(), POLLOUT, deadline));
  if (const int error = connect_error(socket.get()); error != 0)
    return fail(ErrorCode::kUnavailable, error_text(error));
  // The greeting alone: a peer that does not fit might hang up on our READY before it has sent its own.
  const std::string greeting = zmtp_handshake("SUB").substr(0, kZmtpGreetingBytes);
  if (::send(socket.get(), greeting.data(), greeting.size(), MSG_NOSIGNAL) != std::ssize(greeting))
    return fail(ErrorCode::kUnavailable, "the greeting cannot be sent");
  ZmtpDecoder decoder(std::move(peer_types));
  Handshake handshake;
  std::size_t got = 0;
  std::array<char, 512> bytes{};
  while (!handshake.over) {
    if (!await(socket.get(), POLLIN, deadline)) {
      if (got >= kZmtpGreetingBytes) return {};
      return fail(ErrorCode::kUnavailable, "something listens there, but does not greet as a ZeroMQ socket does");
    }
    const ssize_t read = ::recv(socket.get(), bytes.data(), bytes.size(), 0);
    if (read == 0) return fail(ErrorCode::kUnavailable, "the connection was closed");
    if (read < 0 && errno != EAGAIN && errno != EINTR) return fail(ErrorCode::kUnavailable, error_text(errno));
    if (read <= 0) continue;
    got += static_cast<std::size_t>(read);
    KVIST_TRY_VOID(decoder.feed({bytes.data(), static_cast<std::size_t>(read)}, handshake));
  }
  return {};
}

}  // namespace kvist::net

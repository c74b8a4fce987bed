#include "kvist/net/port_probe.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <chrono>

#include "kvist/net/event_loop.h"
#include "kvist/net/socket.h"
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

}  // namespace

Result<void> probe_listen(const std::string& host, std::uint16_t port) {
  if (port == 0) return {};
  KVIST_TRY(const Endpoint endpoint, endpoint_of(host, port));
  KVIST_TRY([[maybe_unused]] const UniqueFd socket, listen_on(endpoint, false));
  return {};
}

Result<void> probe_zmq(std::string_view address, Duration timeout) {
  const TimePoint deadline = now() + timeout;
  KVIST_TRY(const ZmtpEndpoint peer, parse_zmtp_endpoint(address));
  if (peer.host.empty()) return {};
  KVIST_TRY(const Endpoint endpoint, endpoint_of(peer.host, peer.port));
  KVIST_TRY(const UniqueFd socket, start_connect(endpoint));
  KVIST_TRY_VOID(await(socket.get(), POLLOUT, deadline));
  if (const int error = connect_error(socket.get()); error != 0)
    return fail(ErrorCode::kUnavailable, error_text(error));
  // A ZeroMQ peer greets at once: 0xFF, eight bytes, 0x7F (ZMTP 3). It may come in pieces.
  std::array<unsigned char, 10> greeting{};
  for (std::size_t got = 0; got < greeting.size();) {
    if (!await(socket.get(), POLLIN, deadline))
      return fail(ErrorCode::kUnavailable, "something listens there, but does not greet as a ZeroMQ socket does");
    const ssize_t read = ::recv(socket.get(), greeting.data() + got, greeting.size() - got, 0);
    if (read == 0) return fail(ErrorCode::kUnavailable, "the connection was closed");
    if (read < 0 && errno != EAGAIN && errno != EINTR) return fail(ErrorCode::kUnavailable, error_text(errno));
    if (read > 0) got += static_cast<std::size_t>(read);
  }
  if (greeting.front() == 0xFF && greeting.back() == 0x7F) return {};
  return fail(ErrorCode::kUnavailable, "what answers there is no ZeroMQ socket");
}

}  // namespace kvist::net

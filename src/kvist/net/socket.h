// Private to net: the system's non-blocking TCP sockets.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "kvist/base/error.h"

namespace kvist::net {

/// A file descriptor that is closed with its owner.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  ~UniqueFd() { reset(); }

  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] bool valid() const { return fd_ >= 0; }
  void reset();

 private:
  int fd_ = -1;
};

/// An address and a port of either family.
struct Endpoint {
  sockaddr_storage address{};
  socklen_t length = 0;

  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }
};

/// The text of an errno.
[[nodiscard]] std::string error_text(int error);

/// The endpoint of a numeric address; nothing if `host` is a name.
[[nodiscard]] std::optional<Endpoint> numeric_endpoint(const std::string& host, std::uint16_t port);
/// All addresses of a name. May block for seconds. Errors include an empty result. Threads: any, but not a loop's.
[[nodiscard]] Result<std::vector<Endpoint>> resolve_blocking(const std::string& host, std::uint16_t port);

/// What counts as the address of a peer: an IPv4 address, or the first 64 bits of an IPv6 address.
[[nodiscard]] std::uint64_t address_key(const Endpoint& peer);
/// A listening socket. `shared_port`: several sockets may listen on the port (SO_REUSEPORT), and connections are spread
/// over them.
[[nodiscard]] Result<UniqueFd> listen_on(const Endpoint& endpoint, bool shared_port);
/// The port that a socket is bound to.
[[nodiscard]] std::uint16_t local_port(int fd);
/// A socket that is connected or being connected. In the latter case it becomes writable, and connect_error() has the
/// result. Errors: kResourceExhausted if is_local_exhaustion(), otherwise kUnavailable.
[[nodiscard]] Result<UniqueFd> start_connect(const Endpoint& endpoint);
/// The same from an address of this machine, of the same family. Its port is chosen when the socket connects, so that
/// connections to other servers may have the same.
[[nodiscard]] Result<UniqueFd> start_connect(const Endpoint& endpoint, const Endpoint& source);
/// A socket that is bound to an address and has no port yet. Errors as of start_connect().
[[nodiscard]] Result<UniqueFd> bound_socket(const Endpoint& source);
/// Whether the errno of a socket's creation or connection is about this machine, which has no descriptor, port or
/// memory left, and says nothing about the peer.
[[nodiscard]] bool is_local_exhaustion(int error);
/// The errno of the connection attempt; 0 if it succeeded.
[[nodiscard]] int connect_error(int fd);
/// The bytes that were written to a connection and that its peer's system has not confirmed. They lie in this system's
/// buffer, or are on their way.
[[nodiscard]] std::uint64_t unconfirmed_bytes(int fd);
/// Disables Nagle's algorithm, so that bytes are sent at once.
void set_no_delay(int fd);

}  // namespace kvist::net

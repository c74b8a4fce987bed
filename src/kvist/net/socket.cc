#include "kvist/net/socket.h"

#include <arpa/inet.h>
#include <linux/sockios.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>

namespace kvist::net {
namespace {

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

Result<AddressList> look_up(const std::string& host, std::uint16_t port, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | flags;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error == EAI_MEMORY || (error == EAI_SYSTEM && is_local_exhaustion(errno)))
    return fail(ErrorCode::kResourceExhausted, error == EAI_MEMORY ? ::gai_strerror(error) : error_text(errno));
  if (error != 0) return fail(ErrorCode::kUnavailable, ::gai_strerror(error));
  return AddressList(found, &freeaddrinfo);
}

Endpoint endpoint_of(const addrinfo& info) {
  Endpoint endpoint;
  endpoint.length = info.ai_addrlen;
  std::memcpy(&endpoint.address, info.ai_addr, info.ai_addrlen);
  return endpoint;
}

Error last_error() {
  const int error = errno;
  return {is_local_exhaustion(error) ? ErrorCode::kResourceExhausted : ErrorCode::kUnavailable, error_text(error)};
}

Result<UniqueFd> connecting(UniqueFd fd, const Endpoint& endpoint) {
  if (::connect(fd.get(), endpoint.get(), endpoint.length) != 0 && errno != EINPROGRESS)
    return std::unexpected(last_error());
  return fd;
}

}  // namespace

void UniqueFd::reset() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

std::string error_text(int error) {
  return std::system_category().message(error);
}

std::optional<Endpoint> numeric_endpoint(const std::string& host, std::uint16_t port) {
  const auto found = look_up(host, port, AI_NUMERICHOST);
  if (!found) return std::nullopt;
  return endpoint_of(**found);
}

Result<std::vector<Endpoint>> resolve_blocking(const std::string& host, std::uint16_t port) {
  KVIST_TRY(const AddressList list, look_up(host, port, 0));
  std::vector<Endpoint> endpoints;
  for (const addrinfo* info = list.get(); info != nullptr; info = info->ai_next)
    endpoints.push_back(endpoint_of(*info));
  if (endpoints.empty()) return fail(ErrorCode::kUnavailable, "no address");
  return endpoints;
}

std::uint64_t address_key(const Endpoint& peer) {
  if (peer.address.ss_family == AF_INET)
    return ntohl(reinterpret_cast<const sockaddr_in*>(&peer.address)->sin_addr.s_addr);
  if (peer.address.ss_family != AF_INET6) return 0;
  const in6_addr& address = reinterpret_cast<const sockaddr_in6*>(&peer.address)->sin6_addr;
  std::uint64_t key = 0;
  if (IN6_IS_ADDR_V4MAPPED(&address)) {
    for (int i = 12; i < 16; ++i) key = key << 8 | address.s6_addr[i];
  } else {
    for (int i = 0; i < 8; ++i) key = key << 8 | address.s6_addr[i];
  }
  return key;
}

Result<UniqueFd> listen_on(const Endpoint& endpoint, bool shared_port) {
  UniqueFd fd(::socket(endpoint.get()->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  constexpr int kOn = 1;
  if (!fd.valid() || ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &kOn, sizeof(kOn)) != 0 ||
      (shared_port && ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEPORT, &kOn, sizeof(kOn)) != 0) ||
      ::bind(fd.get(), endpoint.get(), endpoint.length) != 0 || ::listen(fd.get(), SOMAXCONN) != 0) {
    return std::unexpected(last_error());
  }
  return fd;
}

std::uint16_t local_port(int fd) {
  Endpoint bound;
  bound.length = sizeof(bound.address);
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&bound.address), &bound.length) != 0) return 0;
  if (bound.address.ss_family == AF_INET6)
    return ntohs(reinterpret_cast<const sockaddr_in6*>(&bound.address)->sin6_port);
  return ntohs(reinterpret_cast<const sockaddr_in*>(&bound.address)->sin_port);
}

Result<UniqueFd> start_connect(const Endpoint& endpoint) {
  UniqueFd fd(::socket(endpoint.get()->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return std::unexpected(last_error());
  return connecting(std::move(fd), endpoint);
}

Result<UniqueFd> start_connect(const Endpoint& endpoint, const Endpoint& source) {
  KVIST_TRY(UniqueFd fd, bound_socket(source));
  return connecting(std::move(fd), endpoint);
}

Result<UniqueFd> bound_socket(const Endpoint& source) {
  UniqueFd fd(::socket(source.get()->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  constexpr int kOn = 1;
  // Without it bind() would take a port of the address for this socket alone, whatever it connects to.
  if (!fd.valid() || ::setsockopt(fd.get(), SOL_IP, IP_BIND_ADDRESS_NO_PORT, &kOn, sizeof(kOn)) != 0 ||
      ::bind(fd.get(), source.get(), source.length) != 0) {
    return std::unexpected(last_error());
  }
  return fd;
}

bool is_local_exhaustion(int error) {
  return error == EMFILE || error == ENFILE || error == EADDRNOTAVAIL || error == ENOBUFS || error == ENOMEM;
}

int connect_error(int fd) {
  int error = 0;
  socklen_t length = sizeof(error);
  return ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0 ? errno : error;
}

std::uint64_t unconfirmed_bytes(int fd) {
  int bytes = 0;
  return ::ioctl(fd, SIOCOUTQ, &bytes) != 0 || bytes < 0 ? 0 : static_cast<std::uint64_t>(bytes);
}

void set_no_delay(int fd) {
  constexpr int kOn = 1;
  (void)::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &kOn, sizeof(kOn));
}

}  // namespace kvist::net

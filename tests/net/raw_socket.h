// Blocking sockets for tests: a peer that sends exactly the given bytes.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace kvist::net {

/// Owns a connected socket. A read that takes longer than 20 s gives up and returns what there is.
class RawSocket {
 public:
  explicit RawSocket(int fd) : fd_(fd) {
    const timeval limit{20, 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
  }
  ~RawSocket() { close(); }
  RawSocket(RawSocket&& other) noexcept : fd_(std::exchange(other.fd_, -1)), read_(std::move(other.read_)) {}
  RawSocket& operator=(RawSocket&&) = delete;

  static RawSocket connect(std::uint16_t port, int receive_buffer_bytes = 0) {
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (receive_buffer_bytes > 0) {
      setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &receive_buffer_bytes, sizeof(receive_buffer_bytes));
    }
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
      throw std::runtime_error("cannot connect");
    }
    return RawSocket(fd);
  }

  /// False: the peer does not take it all.
  bool send(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }

  /// Everything up to and with `marker`, or up to the end of the stream.
  std::string read_until(std::string_view marker) {
    while (!read_.contains(marker) && read_more()) {
    }
    const std::size_t at = read_.find(marker);
    const std::size_t size = at == std::string::npos ? read_.size() : at + marker.size();
    std::string out = read_.substr(0, size);
    read_.erase(0, size);
    return out;
  }
  std::string read_bytes(std::size_t size) {
    while (read_.size() < size && read_more()) {
    }
    std::string out = read_.substr(0, size);
    read_.erase(0, out.size());
    return out;
  }
  std::string read_to_end() {
    while (read_more()) {
    }
    return std::exchange(read_, {});
  }
  /// Whether the stream ends (properly or by a reset) without further bytes.
  bool ended() { return !read_more() && read_.empty(); }

  [[nodiscard]] int fd() const { return fd_; }
  void finish_sending() const { shutdown(fd_, SHUT_WR); }
  void close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }
  void close_with_reset() {
    const linger reset{1, 0};
    setsockopt(fd_, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    close();
  }

 private:
  bool read_more() {
    char buffer[65536];
    const ssize_t size = recv(fd_, buffer, sizeof(buffer), 0);
    if (size <= 0) return false;
    read_.append(buffer, static_cast<std::size_t>(size));
    return true;
  }

  int fd_;
  std::string read_;
};

/// Listens on a free port of 127.0.0.1.
class RawListener {
 public:
  RawListener() : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    if (bind(fd_, reinterpret_cast<const sockaddr*>(&address), size) != 0 || listen(fd_, 64) != 0 ||
        getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
      throw std::runtime_error("cannot listen");
    }
    port_ = ntohs(address.sin_port);
    const timeval limit{20, 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  }
  ~RawListener() { close(fd_); }
  RawListener(const RawListener&) = delete;
  RawListener& operator=(const RawListener&) = delete;

  [[nodiscard]] std::uint16_t port() const { return port_; }
  [[nodiscard]] std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  [[nodiscard]] RawSocket accept() const {
    const int fd = ::accept(fd_, nullptr, nullptr);
    if (fd < 0) throw std::runtime_error("nobody connected");
    return RawSocket(fd);
  }

 private:
  int fd_;
  std::uint16_t port_ = 0;
};

}  // namespace kvist::net

// A plain socket for clients that misbehave: that disconnect in mid-stream or never read.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace kvist::worker {

class RawClient {
 public:
  explicit RawClient(std::uint16_t port, int receive_buffer_bytes = 0) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    if (receive_buffer_bytes > 0)
      ::setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &receive_buffer_bytes, sizeof(receive_buffer_bytes));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0)
      throw std::runtime_error("connect failed");
  }
  ~RawClient() { leave(); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  void post(std::string_view path, std::string_view body) {
    std::string request = "POST " + std::string(path) + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: ";
    request += std::to_string(body.size()) + "\r\n\r\n";
    request += body;
    send(request);
  }
  void send(std::string_view bytes) {
    if (::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(bytes.size()))
      throw std::runtime_error("send failed");
  }

  /// Reads until `text` has arrived or the connection ends; returns all bytes.
  std::string read_until(std::string_view text) {
    char buffer[4096];
    while (received_.find(text) == std::string::npos) {
      const ssize_t count = ::recv(socket_, buffer, sizeof(buffer), 0);
      if (count <= 0) break;
      received_.append(buffer, static_cast<std::size_t>(count));
    }
    return received_;
  }

  void leave() {
    if (socket_ >= 0) ::close(socket_);
    socket_ = -1;
  }

 private:
  int socket_;
  std::string received_;
};

}  // namespace kvist::worker

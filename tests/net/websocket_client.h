// The client's side of a WebSocket, as bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "net/raw_socket.h"

namespace kvist::net {

/// A masked frame.
inline std::string client_frame(int opcode, std::string_view payload, bool final = true) {
  constexpr std::string_view kMask = "\x5a\x01\xff\x33";
  std::string frame(1, static_cast<char>((final ? 0x80 : 0) | opcode));
  const std::size_t size = payload.size();
  if (size < 126) {
    frame += static_cast<char>(0x80 | size);
  } else if (size < 65'536) {
    frame += static_cast<char>(0xFE);
    frame += static_cast<char>(size >> 8);
    frame += static_cast<char>(size & 255);
  } else {
    frame += static_cast<char>(0xFF);
    for (int shift = 56; shift >= 0; shift -= 8) frame += static_cast<char>(std::uint64_t{size} >> shift & 255);
  }
  frame += kMask;
  for (std::size_t i = 0; i < size; ++i) frame += static_cast<char>(payload[i] ^ kMask[i % 4]);
  return frame;
}

inline std::string handshake_request(std::string_view path, std::string_view subprotocol,
                                     std::string_view fields = "") {
  return std::string("GET ")
      .append(path)
      .append(" HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\n")
      .append("Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n")
      .append("Sec-WebSocket-Protocol: ")
      .append(subprotocol)
      .append("\r\n")
      .append(fields)
      .append("\r\n");
}

struct ServerFrame {
  int opcode = -1;  ///< -1: the stream ended
  std::string payload;

  [[nodiscard]] int close_code() const {
    if (opcode != 8 || payload.size() < 2) return 0;
    return static_cast<std::uint8_t>(payload[0]) << 8 | static_cast<std::uint8_t>(payload[1]);
  }
};

/// Reads one frame of the server, which are whole and unmasked.
inline ServerFrame read_frame(RawSocket& socket) {
  const std::string head = socket.read_bytes(2);
  if (head.size() < 2) return {};
  std::uint64_t size = static_cast<std::uint8_t>(head[1]);
  if (size >= 126) {
    const std::string more = socket.read_bytes(size == 126 ? 2 : 8);
    size = 0;
    for (const char c : more) size = size << 8 | static_cast<std::uint8_t>(c);
  }
  return {.opcode = head[0] & 15, .payload = socket.read_bytes(size)};
}

}  // namespace kvist::net

#include "kvist/net/zmtp_encoder.h"

#include <cstdint>

#include "kvist/net/zmtp_frame.h"

namespace kvist::net {

namespace {

constexpr std::size_t kMostContextBytes = 16;

void append_frame(std::string& to, unsigned char flags, std::string_view body) {
  if (body.size() < 256) {
    to.push_back(static_cast<char>(flags));
    to.push_back(static_cast<char>(body.size()));
  } else {
    to.push_back(static_cast<char>(flags | ZmtpFlags::kLong));
    for (int shift = 56; shift >= 0; shift -= 8)
      to.push_back(static_cast<char>(static_cast<std::uint64_t>(body.size()) >> shift & 0xff));
  }
  to.append(body);
}

std::string command(std::string_view name, std::string_view data) {
  std::string body(1, static_cast<char>(name.size()));
  body.append(name).append(data);
  std::string bytes;
  append_frame(bytes, ZmtpFlags::kCommand, body);
  return bytes;
}

}  // namespace

std::string zmtp_handshake(std::string_view socket_type) {
  // Signature, version 3.1, the mechanism in 20 bytes, and not a server.
  std::string greeting("\xff\0\0\0\0\0\0\0\1\x7f\3\1NULL", 16);
  greeting.resize(64, '\0');
  std::string ready("\x0bSocket-Type\0\0\0", 15);
  ready.push_back(static_cast<char>(socket_type.size()));
  ready.append(socket_type);
  return greeting + command("READY", ready);
}

std::string zmtp_message(std::initializer_list<std::string_view> frames) {
  std::string bytes;
  std::size_t left = frames.size();
  for (const std::string_view frame : frames) append_frame(bytes, --left > 0 ? ZmtpFlags::kMore : 0, frame);
  return bytes;
}

std::string zmtp_subscribe(std::string_view topic) {
  return zmtp_message({std::string("\1").append(topic)});
}

std::string zmtp_ping() {
  return command("PING", std::string_view("\0\0", 2));
}

std::string zmtp_pong(std::string_view context) {
  return command("PONG", context.substr(0, kMostContextBytes));
}

}  // namespace kvist::net

// Private to net: what is sent to a ZeroMQ peer, as bytes: ZMTP 3.1 without encryption.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

namespace kvist::net {

/// Greeting and READY command of a client whose socket is of this type ("SUB", "DEALER"). They can be sent at once: a
/// peer reads the second after the first.
[[nodiscard]] std::string zmtp_handshake(std::string_view socket_type);
/// A message with these frames.
[[nodiscard]] std::string zmtp_message(std::initializer_list<std::string_view> frames);
/// The message with which a SUB socket asks for a topic. Version 3.1 has a command for it, which 3.0 does not know.
[[nodiscard]] std::string zmtp_subscribe(std::string_view topic);
/// PING without a time to live: the peer must not forget us.
[[nodiscard]] std::string zmtp_ping();
/// The answer to a PING. Requires: the context is of 16 bytes at most, as the protocol has it; more are cut off.
[[nodiscard]] std::string zmtp_pong(std::string_view context);

}  // namespace kvist::net

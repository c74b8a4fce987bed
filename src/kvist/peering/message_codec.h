// Messages between gateways as msgpack (docs/formats/peers.md).
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "kvist/base/error.h"
#include "kvist/peering/message.h"

namespace kvist::peering {

/// Appends an event's bytes, and returns nothing else: how many there are is what the caller bounds messages by.
void encode_event(const Event& event, std::string& out);
/// A message of events that encode_event() wrote. Requires: `count` of them are in `events`.
[[nodiscard]] std::string encode_message(const Message& head, std::size_t count, const std::string& events);
[[nodiscard]] std::string encode(const Message& message);

/// Reads a message. Safe on any bytes: allocates no more than a few times their number. Returns kInvalidArgument for
/// what is not a message of this version.
[[nodiscard]] Result<Message> decode(std::span<const std::uint8_t> bytes);

}  // namespace kvist::peering

// fuzz: net
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/check.h"
#include "kvist/net/websocket_codec.h"

namespace {

constexpr std::size_t kMaxMessageBytes = 300;

/// What the frames in `bytes` are when they come `piece` at a time.
std::vector<std::string> decode(std::string_view bytes, std::size_t piece) {
  kvist::net::WebSocketDecoder decoder(kMaxMessageBytes);
  std::vector<std::string> events;
  while (!bytes.empty()) {
    decoder.feed(bytes.substr(0, piece));
    bytes.remove_prefix(std::min(piece, bytes.size()));
    while (const auto event = decoder.next()) {
      KVIST_CHECK(event->data.size() <= kMaxMessageBytes, "no message is longer than the bound");
      events.push_back(std::to_string(static_cast<int>(event->kind)) + " " + std::to_string(event->code) + " " +
                       std::string(event->data));
    }
  }
  return events;
}

}  // namespace

/// The first byte chooses a way to split the rest: the events must be those of the whole.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::vector<std::string> whole = decode(bytes, std::max<std::size_t>(bytes.size(), 1));
  KVIST_CHECK(decode(bytes, 1 + data[0] % 32U) == whole, "events do not depend on how the bytes are split");
  return 0;
}

// fuzz: net
// What a ZeroMQ peer sends: reading never crashes, keeps no more than the limits, and does not depend on how bytes are
// cut.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/check.h"
#include "kvist/net/zmtp_decoder.h"
#include "kvist/net/zmtp_encoder.h"

namespace {

using kvist::net::ZmtpMessage;

struct Recorder : kvist::net::ZmtpDecoder::Sink {
  void on_handshake(bool) override { ++handshakes; }
  void on_message(ZmtpMessage& frames) override { messages.push_back(frames); }
  void on_ping(std::string_view context) override { pings.emplace_back(context); }

  int handshakes = 0;
  std::vector<ZmtpMessage> messages;
  std::vector<std::string> pings;
};

constexpr kvist::net::ZmtpLimits kLimits{.message_bytes = 4096, .frames = 8, .command_bytes = 512};

/// Whether all was read.
bool read(std::string_view bytes, std::size_t piece, Recorder& recorder) {
  kvist::net::ZmtpDecoder decoder({"PUB"}, kLimits);
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    if (!decoder.feed(bytes.substr(at, piece), recorder)) return false;
    KVIST_CHECK(decoder.kept_bytes() <= kLimits.message_bytes + kLimits.command_bytes + 64, "it keeps too much");
  }
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  // The first byte: how it is cut, and whether a handshake goes before.
  std::string bytes = (data[0] & 0x80) != 0 ? kvist::net::zmtp_handshake("PUB") : "";
  bytes.append(reinterpret_cast<const char*>(data) + 1, size - 1);
  Recorder whole;
  Recorder cut;
  const bool all = read(bytes, std::max<std::size_t>(1, bytes.size()), whole);
  KVIST_CHECK(read(bytes, 1 + (data[0] & 0x7fU), cut) == all, "the pieces decide whether it is read");
  KVIST_CHECK(whole.handshakes == cut.handshakes && whole.messages == cut.messages && whole.pings == cut.pings,
              "the pieces decide what is read");
  for (const ZmtpMessage& message : whole.messages) {
    KVIST_CHECK(!message.empty() && message.size() <= kLimits.frames, "frames are bounded");
  }
  return 0;
}

// Private to net: what a ZeroMQ peer sends, byte by byte: ZMTP 3 without encryption (rfc.zeromq.org, 23/ZMTP and
// 37/ZMTP).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/error.h"

namespace kvist::net {

/// The frames of a message, in order.
using ZmtpMessage = std::vector<std::string>;

/// What a peer may have kept of one message that it has not finished. A message beyond it is an error, found before the
/// bytes are kept: libzmq has no such bound for a message of many frames, of which 3,000 once took 3 GB.
struct ZmtpLimits {
  std::size_t message_bytes = 64U << 20;
  std::size_t frames = 16;
  std::size_t command_bytes = 4096;
};

/// Reads greeting, handshake and traffic of one connection. Pure: bytes in, calls out. After an error the connection is
/// of no use any more.
class ZmtpDecoder {
 public:
  /// Called in the order of the bytes. May not destroy the decoder.
  class Sink {
   public:
    virtual ~Sink() = default;
    /// The handshake is over. `heartbeats`: the peer's version answers PING (3.1 and later).
    virtual void on_handshake(bool heartbeats) = 0;
    /// The frames may be moved from.
    virtual void on_message(ZmtpMessage& frames) = 0;
    /// The answer is a PONG with the same context.
    virtual void on_ping(std::string_view context) = 0;
  };

  /// `peer_types`: what the peer's socket may be, for example {"PUB", "XPUB"}. Requires: the texts outlive this object.
  explicit ZmtpDecoder(std::vector<std::string_view> peer_types, ZmtpLimits limits = {})
      : peer_types_(std::move(peer_types)), limits_(limits) {}

  /// Takes the bytes that follow those of the last call. An error says what the peer did; no call may follow it.
  [[nodiscard]] Result<void> feed(std::string_view bytes, Sink& sink);
  /// Bytes that are kept of what is not complete yet.
  [[nodiscard]] std::size_t kept_bytes() const { return head_.size() + message_bytes_ + frame_.size(); }

 private:
  struct Frame {
    bool more = false;
    bool command = false;
    std::uint64_t size = 0;
  };

  [[nodiscard]] Result<void> read_greeting(std::string_view& bytes);
  [[nodiscard]] Result<void> check_greeting() const;
  /// Reads a frame's flags and size. Ensures: in_frame_ if they were complete.
  [[nodiscard]] Result<void> read_frame_head(std::string_view& bytes);
  [[nodiscard]] Result<void> check_frame() const;
  [[nodiscard]] Result<void> end_frame(Sink& sink);
  [[nodiscard]] Result<void> take_command(Sink& sink);
  [[nodiscard]] Result<void> take_handshake(std::string_view name, std::string_view data, Sink& sink);

  std::vector<std::string_view> peer_types_;
  ZmtpLimits limits_;
  bool greeted_ = false;
  bool ready_ = false;
  bool heartbeats_ = false;
  bool in_frame_ = false;
  std::string head_;  // of the greeting, or of a frame's flags and size, as long as it is incomplete
  Frame now_;
  std::string frame_;  // its bytes so far
  ZmtpMessage message_;
  std::size_t message_bytes_ = 0;  // of the frames in message_
};

}  // namespace kvist::net

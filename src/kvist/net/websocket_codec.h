// WebSocket (RFC 6455) without I/O: the server's side of the handshake, a decoder of a client's frames, frames to send.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "kvist/net/http_types.h"

namespace kvist::net {

/// Why a WebSocket is closed (RFC 6455, 7.4.1).
enum class WebSocketClose : std::uint16_t {
  kNormal = 1000,
  kGoingAway = 1001,
  kProtocolError = 1002,
  kUnsupportedData = 1003,
  kInvalidText = 1007,  ///< a text that is not UTF-8
  kPolicy = 1008,
  kTooBig = 1009,
  kTryLater = 1013,
};

/// What the client of a handshake gets: the fields of the answer 101, or a refusal.
struct WebSocketHandshake {
  int refused = 0;      ///< the status of a refusal; 0: none
  std::string why;      ///< of a refusal
  std::string accept;   ///< Sec-WebSocket-Accept
  std::string version;  ///< Sec-WebSocket-Version of a refusal with 426
};

/// Judges a request by RFC 6455, 4.2.1. The client has to offer `subprotocol`.
[[nodiscard]] WebSocketHandshake judge_handshake(const HttpRequest& request, std::string_view subprotocol);

/// Sec-WebSocket-Accept for a key.
[[nodiscard]] std::string websocket_accept(std::string_view key);

/// What a client has sent.
struct WebSocketEvent {
  enum class Kind : std::uint8_t {
    kText,    ///< a whole message, of one frame or several
    kBinary,  ///< the same
    kPing,
    kPong,
    kClose,  ///< the client closes, with `code` or, without one, 1005
    kError,  ///< the client broke the protocol: to be closed with `code`; nothing is decoded any more
  };
  Kind kind = Kind::kError;
  std::string_view data = {};  ///< of a message, a ping or a pong; the reason of a close; valid until the next call
  std::uint16_t code = 0;
};

/// Decodes the frames of one client, however its bytes are split. A client's frames are masked, its texts are UTF-8;
/// there are no extensions. Memory: two messages, and no length that is announced is allocated before its bytes are
/// there. After kClose and kError next() returns nothing. Threads: one.
class WebSocketDecoder {
 public:
  explicit WebSocketDecoder(std::size_t max_message_bytes) : max_message_bytes_(max_message_bytes) {}

  /// Takes bytes. next() has to be called until it returns nothing before the next feed().
  void feed(std::string_view bytes);
  [[nodiscard]] std::optional<WebSocketEvent> next();

 private:
  struct Header {
    std::uint8_t opcode = 0;
    bool final = false;
    std::size_t length = 0;
    std::uint8_t mask[4] = {};
  };
  /// Reads a header if it is there in whole; `error` is set if it is none that is allowed.
  [[nodiscard]] std::optional<Header> read_header();
  [[nodiscard]] std::optional<WebSocketEvent> take_data(const Header& header, std::string_view payload);
  [[nodiscard]] WebSocketEvent take_control(const Header& header, std::string_view payload);
  [[nodiscard]] WebSocketEvent take_close(std::string_view payload);
  [[nodiscard]] WebSocketEvent error(WebSocketClose code);

  std::size_t max_message_bytes_;
  std::string buffer_;     // bytes that were not decoded yet, from taken_ on
  std::size_t taken_ = 0;  // bytes of it that were decoded
  std::optional<Header> header_;
  std::string message_;  // frames of a message so far
  std::string control_;  // the payload of the last control frame
  bool in_message_ = false;
  bool is_text_ = false;
  bool delivered_ = false;  // message_ was returned and is to be emptied
  bool ended_ = false;
  std::optional<WebSocketClose> broken_;
};

enum class WebSocketOpcode : std::uint8_t { kText = 1, kBinary = 2, kClose = 8, kPing = 9, kPong = 10 };

/// The head of an unmasked frame with all of a message, to be followed by its bytes.
[[nodiscard]] std::string websocket_frame_head(WebSocketOpcode opcode, std::size_t length);
/// The payload of a close frame; the reason is cut to what a control frame holds.
[[nodiscard]] std::string websocket_close_payload(WebSocketClose code, std::string_view reason);

}  // namespace kvist::net

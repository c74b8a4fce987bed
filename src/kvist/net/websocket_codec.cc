#include "kvist/net/websocket_codec.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <utility>

#include "kvist/base/check.h"
#include "kvist/base/utf8.h"

namespace kvist::net {
namespace {

constexpr std::size_t kMaxControlBytes = 125;
constexpr std::string_view kGuid = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
constexpr std::size_t kKeyBytes = 24;  // 16 bytes in base64

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = utf8_sequence_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

/// Whether a comma-separated field has the word, without regard to case.
bool has_word(std::string_view list, std::string_view lower) {
  while (!list.empty()) {
    std::string_view word = list.substr(0, list.find(','));
    list.remove_prefix(std::min(list.size(), word.size() + 1));
    while (word.starts_with(' ') || word.starts_with('\t')) word.remove_prefix(1);
    while (word.ends_with(' ') || word.ends_with('\t')) word.remove_suffix(1);
    if (equals_no_case(word, lower)) return true;
  }
  return false;
}

/// The same over all fields of that name.
bool any_has_word(const Headers& headers, std::string_view lower_name, std::string_view lower) {
  return std::ranges::any_of(headers.fields(), [&](const auto& field) {
    return equals_no_case(field.first, lower_name) && has_word(field.second, lower);
  });
}

bool is_key(std::string_view key) {
  const auto is_digit = [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '+' || c == '/';
  };
  return key.size() == kKeyBytes && key.ends_with("==") && std::ranges::all_of(key.substr(0, 22), is_digit);
}

/// Codes that a peer may send (RFC 6455, 7.4).
bool is_close_code(std::uint16_t code) {
  const bool defined = (code >= 1000 && code <= 1003) || (code >= 1007 && code <= 1014);
  return defined || (code >= 3000 && code <= 4999);
}

WebSocketHandshake refusal(int status, std::string why) {
  WebSocketHandshake refused;
  refused.refused = status;
  refused.why = std::move(why);
  if (status == 426) refused.version = "13";
  return refused;
}

}  // namespace

std::string websocket_accept(std::string_view key) {
  const std::string text = std::string(key).append(kGuid);
  std::array<unsigned char, EVP_MAX_MD_SIZE> hash{};
  unsigned int length = 0;
  const bool done = EVP_Digest(text.data(), text.size(), hash.data(), &length, EVP_sha1(), nullptr) == 1;
  KVIST_CHECK(done, "OpenSSL computes no SHA-1");
  std::array<unsigned char, 32> encoded{};
  const int size = EVP_EncodeBlock(encoded.data(), hash.data(), static_cast<int>(length));
  return {reinterpret_cast<const char*>(encoded.data()), static_cast<std::size_t>(size)};
}

WebSocketHandshake judge_handshake(const HttpRequest& request, std::string_view subprotocol) {
  if (request.method != "GET") return refusal(405, "a WebSocket is opened with GET");
  const Headers& headers = request.headers;
  if (!any_has_word(headers, "connection", "upgrade") || !any_has_word(headers, "upgrade", "websocket")) {
    return refusal(426, "this path is a WebSocket: Upgrade: websocket is missing");
  }
  if (headers.find("Sec-WebSocket-Version").value_or("") != "13") {
    return refusal(426, "expected Sec-WebSocket-Version: 13");
  }
  const std::string_view key = headers.find("Sec-WebSocket-Key").value_or("");
  if (!is_key(key)) return refusal(400, "Sec-WebSocket-Key is not 16 bytes in base64");
  if (!any_has_word(headers, "sec-websocket-protocol", subprotocol)) {
    return refusal(400, "expected Sec-WebSocket-Protocol: " + std::string(subprotocol));
  }
  WebSocketHandshake accepted;
  accepted.accept = websocket_accept(key);
  return accepted;
}

void WebSocketDecoder::feed(std::string_view bytes) {
  if (ended_) return;
  if (taken_ > 0) buffer_.erase(0, std::exchange(taken_, 0));
  buffer_.append(bytes);
}

std::optional<WebSocketEvent> WebSocketDecoder::next() {
  if (std::exchange(delivered_, false)) message_.clear();
  while (!ended_) {
    if (!header_) header_ = read_header();
    if (broken_) return error(*broken_);
    if (!header_ || buffer_.size() - taken_ < header_->length) return std::nullopt;
    const Header header = *std::exchange(header_, std::nullopt);
    char* const payload = buffer_.data() + taken_;
    for (std::size_t i = 0; i < header.length; ++i)
      payload[i] = static_cast<char>(static_cast<std::uint8_t>(payload[i]) ^ header.mask[i % 4]);
    taken_ += header.length;
    const std::string_view data(payload, header.length);
    if (header.opcode >= 8) return take_control(header, data);
    if (const auto event = take_data(header, data)) return event;
  }
  return std::nullopt;
}

std::optional<WebSocketDecoder::Header> WebSocketDecoder::read_header() {
  const std::string_view rest = std::string_view(buffer_).substr(taken_);
  if (rest.size() < 2) return std::nullopt;
  const auto byte = [&](std::size_t at) { return static_cast<std::uint8_t>(rest[at]); };
  Header header;
  header.final = (byte(0) & 0x80U) != 0;
  header.opcode = byte(0) & 0x0FU;
  const bool is_control = header.opcode >= 8;
  const bool reserved = (byte(0) & 0x70U) != 0 || (header.opcode > 2 && header.opcode < 8) || header.opcode > 10;
  const bool masked = (byte(1) & 0x80U) != 0;
  const bool starts = header.opcode == 1 || header.opcode == 2;
  const bool out_of_turn = (starts && in_message_) || (header.opcode == 0 && !in_message_);
  std::uint64_t length = byte(1) & 0x7FU;
  if (reserved || !masked || out_of_turn || (is_control && (!header.final || length > kMaxControlBytes))) {
    broken_ = WebSocketClose::kProtocolError;
    return std::nullopt;
  }
  const std::size_t length_bytes = length == 126 ? 2 : length == 127 ? 8 : 0;
  if (rest.size() < 2 + length_bytes) return std::nullopt;
  if (length_bytes > 0) {
    length = 0;
    for (std::size_t i = 0; i < length_bytes; ++i) length = length << 8 | byte(2 + i);
    const bool too_long_form = length < (length_bytes == 2 ? 126U : 65'536U) || (length >> 63) != 0;
    if (too_long_form) {
      broken_ = WebSocketClose::kProtocolError;
      return std::nullopt;
    }
  }
  if (!is_control && length > max_message_bytes_ - message_.size()) {
    broken_ = WebSocketClose::kTooBig;
    return std::nullopt;
  }
  if (rest.size() < 2 + length_bytes + 4) return std::nullopt;
  for (std::size_t i = 0; i < 4; ++i) header.mask[i] = byte(2 + length_bytes + i);
  header.length = static_cast<std::size_t>(length);
  taken_ += 2 + length_bytes + 4;
  return header;
}

std::optional<WebSocketEvent> WebSocketDecoder::take_data(const Header& header, std::string_view payload) {
  if (header.opcode != 0) is_text_ = header.opcode == 1;
  in_message_ = !header.final;
  message_.append(payload);
  if (!header.final) return std::nullopt;
  if (is_text_ && !is_utf8(message_)) return error(WebSocketClose::kInvalidText);
  delivered_ = true;
  return WebSocketEvent{.kind = is_text_ ? WebSocketEvent::Kind::kText : WebSocketEvent::Kind::kBinary,
                        .data = message_};
}

WebSocketEvent WebSocketDecoder::take_control(const Header& header, std::string_view payload) {
  control_.assign(payload);
  if (header.opcode == 8) return take_close(control_);
  return {.kind = header.opcode == 9 ? WebSocketEvent::Kind::kPing : WebSocketEvent::Kind::kPong, .data = control_};
}

WebSocketEvent WebSocketDecoder::take_close(std::string_view payload) {
  constexpr std::uint16_t kNoCode = 1005;
  if (payload.empty()) {
    ended_ = true;
    return {.kind = WebSocketEvent::Kind::kClose, .code = kNoCode};
  }
  if (payload.size() == 1) return error(WebSocketClose::kProtocolError);
  const auto code =
      static_cast<std::uint16_t>(static_cast<std::uint8_t>(payload[0]) << 8 | static_cast<std::uint8_t>(payload[1]));
  if (!is_close_code(code)) return error(WebSocketClose::kProtocolError);
  if (!is_utf8(payload.substr(2))) return error(WebSocketClose::kInvalidText);
  ended_ = true;
  return {.kind = WebSocketEvent::Kind::kClose, .data = payload.substr(2), .code = code};
}

WebSocketEvent WebSocketDecoder::error(WebSocketClose code) {
  ended_ = true;
  buffer_.clear();
  taken_ = 0;
  return {.kind = WebSocketEvent::Kind::kError, .code = static_cast<std::uint16_t>(code)};
}

std::string websocket_frame_head(WebSocketOpcode opcode, std::size_t length) {
  std::string head(1, static_cast<char>(0x80U | static_cast<std::uint8_t>(opcode)));
  const auto append = [&](std::size_t bytes) {
    for (std::size_t i = bytes; i-- > 0;)
      head += static_cast<char>(static_cast<std::uint64_t>(length) >> (8 * i) & 255U);
  };
  if (length <= kMaxControlBytes) {
    head += static_cast<char>(length);
  } else if (length < 65'536) {
    head += static_cast<char>(126);
    append(2);
  } else {
    head += static_cast<char>(127);
    append(8);
  }
  return head;
}

std::string websocket_close_payload(WebSocketClose code, std::string_view reason) {
  const auto number = static_cast<std::uint16_t>(code);
  std::string payload{static_cast<char>(number >> 8), static_cast<char>(number & 255)};
  reason = reason.substr(0, kMaxControlBytes - 2);
  reason.remove_suffix(utf8_incomplete_tail(reason));
  return payload.append(reason);
}

}  // namespace kvist::net

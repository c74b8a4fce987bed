// The WebSocket codec: handshakes, frames however they are split, and clients that break the protocol.
#include "kvist/net/websocket_codec.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "net/websocket_client.h"

namespace kvist::net::websocket_codec_test {
namespace {

using Kind = WebSocketEvent::Kind;

struct Seen {
  Kind kind;
  std::string data;
  std::uint16_t code = 0;
  bool operator==(const Seen&) const = default;
};

/// What is decoded when the bytes come `piece` at a time.
std::vector<Seen> decode(std::string_view bytes, std::size_t piece, std::size_t bound = 1'000'000) {
  WebSocketDecoder decoder(bound);
  std::vector<Seen> seen;
  while (!bytes.empty()) {
    decoder.feed(bytes.substr(0, piece));
    bytes.remove_prefix(std::min(piece, bytes.size()));
    while (const auto event = decoder.next()) seen.push_back({event->kind, std::string(event->data), event->code});
  }
  return seen;
}

/// The code with which a client that sends this is closed; 0: it is not.
int code_of(std::string_view bytes, std::size_t bound = 1'000'000) {
  const std::vector<Seen> seen = decode(bytes, bytes.size(), bound);
  return !seen.empty() && seen.back().kind == Kind::kError ? seen.back().code : 0;
}

HttpRequest handshake() {
  HttpRequest request{.method = "GET", .target = "/ws", .headers = {}, .body = {}};
  request.headers.add("Upgrade", "websocket");
  request.headers.add("Connection", "keep-alive, Upgrade");
  request.headers.add("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==");
  request.headers.add("Sec-WebSocket-Version", "13");
  request.headers.add("Sec-WebSocket-Protocol", "other, mine-1");
  return request;
}

TEST(WebSocketHandshake, AnswersTheKeyOfTheStandardAsTheStandardDoes) {
  const WebSocketHandshake made = judge_handshake(handshake(), "mine-1");
  EXPECT_EQ(made.refused, 0) << made.why;
  EXPECT_EQ(made.accept, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
}

TEST(WebSocketHandshake, RefusesWhatIsNoHandshakeAndSaysWhy) {
  const auto status = [](std::string_view field, std::string value) {
    HttpRequest request = handshake();
    request.headers.set(field, std::move(value));
    return judge_handshake(request, "mine-1").refused;
  };
  EXPECT_EQ(status("Upgrade", "h2c"), 426);
  EXPECT_EQ(status("Connection", "close"), 426);
  EXPECT_EQ(status("Sec-WebSocket-Version", "8"), 426);
  EXPECT_EQ(status("Sec-WebSocket-Key", "short"), 400);
  EXPECT_EQ(status("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=!"), 400);
  EXPECT_EQ(status("Sec-WebSocket-Protocol", "other"), 400);
  HttpRequest post = handshake();
  post.method = "POST";
  EXPECT_EQ(judge_handshake(post, "mine-1").refused, 405);
}

TEST(WebSocketDecoder, MessagesAreTheSameHoweverTheirBytesAreSplit) {
  const std::string text(70'000, 'x');
  const std::string bytes = client_frame(1, "first") + client_frame(1, "", false) + client_frame(9, "are you there?") +
                            client_frame(0, "sec", false) + client_frame(0, "ond") +
                            client_frame(2, std::string(200, '\1')) + client_frame(1, text) + client_frame(10, "") +
                            client_frame(8, std::string("\x03\xe8", 2) + "bye");
  const std::vector<Seen> expected = {{Kind::kText, "first"},     {Kind::kPing, "are you there?"},
                                      {Kind::kText, "second"},    {Kind::kBinary, std::string(200, '\1')},
                                      {Kind::kText, text},        {Kind::kPong, ""},
                                      {Kind::kClose, "bye", 1000}};
  for (const std::size_t piece :
       {std::size_t{1}, std::size_t{2}, std::size_t{3}, std::size_t{7}, std::size_t{1000}, bytes.size()})
    EXPECT_EQ(decode(bytes, piece), expected) << piece;
}

TEST(WebSocketDecoder, ClosesWhoBreaksTheProtocol) {
  const std::string unmasked("\x81\x01x", 3);
  EXPECT_EQ(code_of(unmasked), 1002);
  EXPECT_EQ(code_of(std::string("\xc1\x80\0\0\0\0", 6)), 1002);  // a reserved bit
  EXPECT_EQ(code_of(client_frame(3, "")), 1002);                 // reserved opcodes
  EXPECT_EQ(code_of(client_frame(11, "")), 1002);
  EXPECT_EQ(code_of(client_frame(0, "x")), 1002);                                // continues nothing
  EXPECT_EQ(code_of(client_frame(1, "a", false) + client_frame(1, "b")), 1002);  // begins within a message
  EXPECT_EQ(code_of(client_frame(9, "x", false)), 1002);                         // a control frame in pieces
  EXPECT_EQ(code_of(client_frame(9, std::string(126, 'x'))), 1002);              // a long one
  EXPECT_EQ(code_of(std::string("\x81\xfe\0\x05\0\0\0\0hello", 13)), 1002);      // a length in too many bytes
  EXPECT_EQ(code_of(client_frame(8, "x")), 1002);                                // half a code
  EXPECT_EQ(code_of(client_frame(8, std::string("\x03\xed", 2))), 1002);         // 1005 is never sent
  EXPECT_EQ(code_of(client_frame(1, "\xff")), 1007);
  EXPECT_EQ(code_of(client_frame(8, std::string("\x03\xe8\xff", 3))), 1007);
}

TEST(WebSocketDecoder, ATextMayBeCutWithinACharacterButNotEndThere) {
  EXPECT_EQ(code_of(client_frame(1, "\xc3", false) + client_frame(0, "\xa4")), 0);
  EXPECT_EQ(code_of(client_frame(1, "a\xc3")), 1007);
}

TEST(WebSocketDecoder, AMessageBeyondTheBoundIsRefusedByItsLengthAlone) {
  EXPECT_EQ(code_of(client_frame(1, std::string(100, 'x')), 100), 0);
  EXPECT_EQ(code_of(client_frame(1, std::string(101, 'x')).substr(0, 2), 100), 1009);
  EXPECT_EQ(code_of(client_frame(1, std::string(60, 'x'), false) + client_frame(0, std::string(41, 'x')), 100), 1009);
  // 2^63 - 1 bytes that never come
  EXPECT_EQ(code_of(std::string("\x81\xff\x7f\xff\xff\xff\xff\xff\xff\xff", 10), 100), 1009);
}

TEST(WebSocketDecoder, NothingIsDecodedAfterTheEnd) {
  WebSocketDecoder decoder(100);
  decoder.feed(client_frame(8, "") + client_frame(1, "late"));
  const auto closed = decoder.next();
  ASSERT_TRUE(closed);
  EXPECT_EQ(closed->kind, Kind::kClose);
  EXPECT_EQ(closed->code, 1005);
  EXPECT_FALSE(decoder.next());
  decoder.feed(client_frame(1, "later"));
  EXPECT_FALSE(decoder.next());
}

TEST(WebSocketFrames, HaveTheShortestLengthAndAReasonThatFits) {
  EXPECT_EQ(websocket_frame_head(WebSocketOpcode::kText, 125), std::string("\x81\x7d", 2));
  EXPECT_EQ(websocket_frame_head(WebSocketOpcode::kText, 126), std::string("\x81\x7e\0\x7e", 4));
  EXPECT_EQ(websocket_frame_head(WebSocketOpcode::kText, 65'536), std::string("\x81\x7f\0\0\0\0\0\1\0\0", 10));
  std::string reason(122, 'x');
  reason += "\xc3\xa4";  // would end at 124 bytes, one too many
  EXPECT_EQ(websocket_close_payload(WebSocketClose::kTooBig, reason),
            std::string("\x03\xf1", 2) + std::string(122, 'x'));
}

}  // namespace
}  // namespace kvist::net::websocket_codec_test

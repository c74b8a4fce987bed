// WebSockets over real sockets: messages, closes, browsers' origins, clients that do not read or do not answer.
#include "kvist/net/websocket.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kvist/net/admin_listener.h"
#include "net/loop_thread.h"
#include "net/websocket_client.h"

namespace kvist::net::websocket_test {
namespace {

/// A server that answers each text with "got <text>".
class WebSocketTest : public testing::Test {
 protected:
  ~WebSocketTest() override {
    thread_.run([this] {
      sockets_.clear();
      server_.reset();
    });
    thread_.stop();
  }

  void listen(WebSocketOptions options = {}) {
    options.subprotocol = "test-1";
    thread_.run([&] {
      auto server = HttpServer::listen(
          thread_.loop(), admin_listener("127.0.0.1", 0), [this, options](HttpRequest request, auto exchange) {
            const std::size_t number = sockets_.size();
            WebSocket::Handlers handlers{.on_text =
                                             [this, number](std::string_view text) {
                                               texts_.emplace_back(text);
                                               sockets_[number]->send_text("got " + std::string(text));
                                             },
                                         .on_closed = [this] { ++closed_; }};
            auto socket = WebSocket::accept(thread_.loop(), request, std::move(exchange), options, std::move(handlers));
            if (socket) sockets_.push_back(std::move(socket));
          });
      ASSERT_TRUE(server) << server.error().message;
      server_ = std::move(*server);
      port_ = server_->port();
    });
  }

  RawSocket open(std::string_view after = "") {
    RawSocket socket = RawSocket::connect(port_);
    EXPECT_TRUE(socket.send(handshake_request("/ws", "test-1") + std::string(after)));
    const std::string head = socket.read_until("\r\n\r\n");
    EXPECT_TRUE(head.starts_with("HTTP/1.1 101 ")) << head;
    EXPECT_TRUE(head.contains("Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n")) << head;
    EXPECT_TRUE(head.contains("Connection: Upgrade\r\n") && head.contains("Sec-WebSocket-Protocol: test-1\r\n"))
        << head;
    return socket;
  }
  int close_code(std::string_view bytes) {
    RawSocket socket = open();
    EXPECT_TRUE(socket.send(bytes));
    const int code = read_frame(socket).close_code();
    EXPECT_TRUE(socket.ended());
    return code;
  }

  LoopThread thread_;
  std::unique_ptr<HttpServer> server_;
  std::uint16_t port_ = 0;
  std::vector<std::shared_ptr<WebSocket>> sockets_;
  std::vector<std::string> texts_;
  int closed_ = 0;
};

TEST_F(WebSocketTest, MessagesGoBothWays) {
  listen();
  RawSocket socket = open();
  ASSERT_TRUE(
      socket.send(client_frame(1, "one") + client_frame(1, "t", false) + client_frame(9, "?") + client_frame(0, "wo")));
  EXPECT_EQ(read_frame(socket).payload, "got one");
  const ServerFrame pong = read_frame(socket);
  EXPECT_EQ(pong.opcode, 10);
  EXPECT_EQ(pong.payload, "?");
  EXPECT_EQ(read_frame(socket).payload, "got two");
  thread_.run([&] { sockets_[0]->send_text(std::string(100'000, 'y')); });
  EXPECT_EQ(read_frame(socket).payload, std::string(100'000, 'y'));
}

TEST_F(WebSocketTest, WhatComesWithTheHandshakeIsRead) {
  listen();
  RawSocket socket = open(client_frame(1, "early"));
  EXPECT_EQ(read_frame(socket).payload, "got early");
}

TEST_F(WebSocketTest, ACloseOfTheClientIsAnswered) {
  listen();
  EXPECT_EQ(close_code(client_frame(8, std::string("\x03\xe9", 2))), 1000);
  EXPECT_TRUE(thread_.wait([&] { return closed_ == 1; }));
  EXPECT_TRUE(thread_.wait([&] { return server_->connections() == 0; }));
}

TEST_F(WebSocketTest, ACloseOfTheServerEndsWithTheClientsAnswerOrWithoutIt) {
  listen({.close_timeout = std::chrono::milliseconds(50)});
  RawSocket answers = open();
  RawSocket is_silent = open();
  thread_.run([&] {
    sockets_[0]->close(WebSocketClose::kGoingAway, "ends");
    sockets_[1]->close(WebSocketClose::kGoingAway, "ends");
    sockets_[1]->send_text("too late");
  });
  const ServerFrame close = read_frame(answers);
  EXPECT_EQ(close.close_code(), 1001);
  EXPECT_EQ(close.payload.substr(2), "ends");
  ASSERT_TRUE(answers.send(client_frame(8, std::string("\x03\xe9", 2))));
  EXPECT_TRUE(answers.ended());
  EXPECT_EQ(read_frame(is_silent).close_code(), 1001);
  EXPECT_TRUE(is_silent.ended());
  EXPECT_TRUE(thread_.wait([&] { return closed_ == 2; }));
}

TEST_F(WebSocketTest, WhoBreaksTheProtocolIsToldWhyAndDisconnected) {
  listen({.max_message_bytes = 100});
  EXPECT_EQ(close_code(std::string("\x81\x01x", 3)), 1002);
  EXPECT_EQ(close_code(client_frame(1, "\xff")), 1007);
  EXPECT_EQ(close_code(client_frame(1, std::string(101, 'x'))), 1009);
  EXPECT_TRUE(thread_.wait([&] { return closed_ == 3; }));
}

TEST_F(WebSocketTest, BinaryMessagesAreNotUnderstood) {
  listen({.close_timeout = std::chrono::milliseconds(50)});
  EXPECT_EQ(close_code(client_frame(2, "x")), 1003);
}

TEST_F(WebSocketTest, AClientThatLeavesIsNoticed) {
  listen();
  {
    RawSocket socket = open();
    socket.close_with_reset();
  }
  EXPECT_TRUE(thread_.wait([&] { return closed_ == 1; }));
}

TEST_F(WebSocketTest, ASilentClientIsGivenUp) {
  listen({.ping_interval = std::chrono::milliseconds(10), .pong_timeout = std::chrono::milliseconds(60)});
  RawSocket socket = open();
  EXPECT_EQ(read_frame(socket).opcode, 9);
  EXPECT_TRUE(thread_.wait([&] { return closed_ == 1; }));
}

TEST_F(WebSocketTest, AClientThatDoesNotReadIsBrokenOffAtTheBound) {
  listen({.max_unsent_bytes = 1U << 20});
  RawSocket socket = open();
  const std::string text(64U << 10, 'x');
  std::size_t most = 0;
  EXPECT_TRUE(thread_.wait([&] {
    for (int i = 0; i < 16; ++i) sockets_[0]->send_text(text);
    most = std::max(most, sockets_[0]->unsent_bytes());
    return closed_ == 1;
  }));
  EXPECT_LE(most, (1U << 20) + (17 * text.size()));
}

TEST_F(WebSocketTest, PagesOfOtherOriginsAndOtherRequestsAreRefused) {
  listen();
  const auto status = [&](const std::string& request) {
    RawSocket socket = RawSocket::connect(port_);
    EXPECT_TRUE(socket.send(request));
    return socket.read_until("\r\n").substr(9, 3);
  };
  EXPECT_EQ(status(handshake_request("/ws", "test-1", "Origin: http://evil.example\r\n")), "403");
  EXPECT_EQ(status(handshake_request("/ws", "test-1", "Origin: null\r\n")), "403");
  EXPECT_EQ(status(handshake_request("/ws", "test-1", "Origin: http://127.0.0.1\r\n")), "101");
  EXPECT_EQ(status(handshake_request("/ws", "test-2")), "400");
  EXPECT_EQ(status("GET /ws HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"), "426");
  EXPECT_EQ(status("GET /ws HTTP/1.1\r\nHost: rebound.example\r\n\r\n"), "421");
}

TEST_F(WebSocketTest, TheServerMayEndWithWebSocketsOpen) {
  listen();
  RawSocket socket = open();
  thread_.run([&] { server_.reset(); });
  EXPECT_TRUE(socket.ended());
  thread_.run([&] { sockets_[0]->send_text("to nobody"); });
}

}  // namespace
}  // namespace kvist::net::websocket_test

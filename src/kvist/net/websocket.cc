#include "kvist/net/websocket.h"

#include <optional>
#include <utility>

#include "kvist/net/server_exchange.h"

namespace kvist::net {
namespace {

class Session final : public WebSocket, public std::enable_shared_from_this<Session> {
 public:
  Session(EventLoop& loop, std::shared_ptr<HttpExchange> exchange, WebSocketOptions options, Handlers handlers)
      : loop_(loop),
        exchange_(std::move(exchange)),
        options_(std::move(options)),
        handlers_(std::move(handlers)),
        decoder_(options_.max_message_bytes),
        timer_(loop) {}
  ~Session() override {
    if (exchange_) exchange_->abort();
  }

  void open(ServerExchange& exchange, const std::string& accept) {
    Headers headers;
    headers.add("Upgrade", "websocket");
    headers.add("Sec-WebSocket-Accept", accept);
    headers.add("Sec-WebSocket-Protocol", options_.subprotocol);
    exchange.on_client_gone([weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->gone();
    });
    exchange.upgrade(headers, [weak = weak_from_this()](std::string_view bytes) {
      if (const auto self = weak.lock()) self->received(bytes);
    });
    heard_ = now();
    ping_later();
  }

  void send_text(std::string_view text) override {
    if (!is_open()) return;
    send(WebSocketOpcode::kText, text);
    if (unsent_bytes() > options_.max_unsent_bytes) break_off();
  }
  [[nodiscard]] std::size_t unsent_bytes() const override { return exchange_ ? exchange_->unsent_bytes() : 0; }
  [[nodiscard]] bool is_open() const override { return exchange_ != nullptr && !closing_; }

  void close(WebSocketClose code, std::string_view reason) override {
    if (!is_open()) return;
    closing_ = true;
    send(WebSocketOpcode::kClose, websocket_close_payload(code, reason));
    timer_.arm(now() + options_.close_timeout, [this] { break_off(); });
  }

 private:
  void send(WebSocketOpcode opcode, std::string_view payload) {
    if (!exchange_) return;
    exchange_->write(websocket_frame_head(opcode, payload.size()));
    exchange_->write(payload);
  }

  void received(std::string_view bytes) {
    const auto self = shared_from_this();
    heard_ = now();
    decoder_.feed(bytes);
    while (const std::optional<WebSocketEvent> event = decoder_.next()) {
      take(*event);
      if (!exchange_) return;
    }
  }

  void take(const WebSocketEvent& event) {
    switch (event.kind) {
      case WebSocketEvent::Kind::kText:
        if (is_open() && handlers_.on_text) handlers_.on_text(event.data);
        return;
      case WebSocketEvent::Kind::kBinary:
        return close(WebSocketClose::kUnsupportedData, "only texts are understood");
      case WebSocketEvent::Kind::kPing:
        // A client that asks without reading gets no more answers.
        if (is_open() && unsent_bytes() < options_.max_message_bytes) send(WebSocketOpcode::kPong, event.data);
        return;
      case WebSocketEvent::Kind::kPong:
        return;
      case WebSocketEvent::Kind::kClose:
        if (!closing_) send(WebSocketOpcode::kClose, websocket_close_payload(WebSocketClose::kNormal, ""));
        return end();
      case WebSocketEvent::Kind::kError:
        if (closing_) return end();
        send(WebSocketOpcode::kClose, websocket_close_payload(static_cast<WebSocketClose>(event.code), ""));
        return end();
    }
  }

  void ping_later() {
    timer_.arm(now() + options_.ping_interval, [this] {
      if (now() - heard_ > options_.pong_timeout) return break_off();
      send(WebSocketOpcode::kPing, "");
      if (exchange_) ping_later();
    });
  }

  /// Everything is said: the connection ends when it is sent.
  void end() {
    if (!exchange_) return;
    exchange_->end_stream();
    gone();
  }
  void break_off() {
    if (!exchange_) return;
    exchange_->abort();
    gone();
  }
  void gone() {
    timer_.cancel();
    // Released from the loop, because one of its functions may be running.
    loop_.post([exchange = std::exchange(exchange_, nullptr)] {});
    loop_.post([weak = weak_from_this()] {
      const auto self = weak.lock();
      if (!self) return;
      if (const auto on_closed = std::exchange(self->handlers_.on_closed, nullptr)) on_closed();
    });
  }

  EventLoop& loop_;
  std::shared_ptr<HttpExchange> exchange_;  // null: closed
  WebSocketOptions options_;
  Handlers handlers_;
  WebSocketDecoder decoder_;
  Timer timer_;  // of the next ping, or of the end of a close
  TimePoint heard_{};
  bool closing_ = false;
};

}  // namespace

std::shared_ptr<WebSocket> WebSocket::accept(EventLoop& loop, const HttpRequest& request,
                                             std::shared_ptr<HttpExchange> exchange, WebSocketOptions options,
                                             Handlers handlers) {
  WebSocketHandshake handshake = judge_handshake(request, options.subprotocol);
  if (handshake.refused != 0) {
    HttpResponse answer = error_response(handshake.refused, handshake.why);
    if (!handshake.version.empty()) {
      answer.headers.add("Sec-WebSocket-Version", handshake.version);
      answer.headers.add("Upgrade", "websocket");
    }
    exchange->respond(std::move(answer));
    return nullptr;
  }
  // The connection of a server, which is the only one that has bytes.
  auto* const connection = dynamic_cast<ServerExchange*>(exchange.get());
  if (connection == nullptr) {
    exchange->respond(error_response(501, "a WebSocket cannot be opened here"));
    return nullptr;
  }
  auto session = std::make_shared<Session>(loop, std::move(exchange), std::move(options), std::move(handlers));
  session->open(*connection, handshake.accept);
  return session;
}

}  // namespace kvist::net

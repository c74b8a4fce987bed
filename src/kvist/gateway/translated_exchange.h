// An exchange whose answer is translated on its way to the client.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "kvist/dialects/dialect.h"
#include "kvist/net/event_loop.h"
#include "kvist/net/http_server.h"
#include "kvist/net/sse.h"

namespace kvist::gateway {

/// Names a request as the clients of its API look for it, beside kRequestIdHeader. Does nothing if that is not set.
void add_request_id(dialects::Dialect dialect, net::Headers& headers);

/// The proxy answers a chat; the client gets the answer in its own API: a whole answer, an error, or a stream event by
/// event, without delay. If something cannot be translated, the client gets an error in its API, and for the proxy the
/// client has left, so that the worker stops. Threads: the loop's.
class TranslatedExchange final : public net::HttpExchange {
 public:
  /// The most bytes that are collected of an answer that is not a stream.
  static constexpr std::size_t kMaxWholeBytes = 64UL << 20;

  /// `answer` may be null if the proxy answers with an error.
  TranslatedExchange(net::EventLoop& loop, dialects::Dialect dialect,
                     std::unique_ptr<dialects::AnswerTranslator> answer, std::shared_ptr<net::HttpExchange> client);

  void respond(net::HttpResponse response) override;
  void begin_stream(int status, net::Headers headers) override;
  void write(std::string_view data) override;
  void end_stream() override;
  void abort() override;
  [[nodiscard]] std::size_t unsent_bytes() const override { return client_->unsent_bytes(); }
  void on_drained(std::size_t low_water, std::function<void()> handler) override {
    client_->on_drained(low_water, std::move(handler));
  }
  void on_client_gone(std::function<void()> handler) override;
  [[nodiscard]] bool client_gone() const override { return client_->client_gone(); }
  [[nodiscard]] std::optional<int> client_status() const override { return status_; }

 private:
  void translate(std::string_view data);
  void send(net::HttpResponse response);
  void fail_stream(const Error& error);
  void collect(std::string_view data);
  void leave();

  net::EventLoop* loop_;
  dialects::Dialect dialect_;
  std::unique_ptr<dialects::AnswerTranslator> answer_;
  std::shared_ptr<net::HttpExchange> client_;
  std::shared_ptr<std::function<void()>> on_gone_;
  net::SseParser parser_;
  std::string events_;
  std::optional<int> status_;  // that the client has; nothing: none yet
  bool ended_ = false;         // the client has all it will get
  bool collects_ = false;      // the answer is no event stream and is translated as a whole
  net::HttpResponse whole_;    // while collects_
};

}  // namespace kvist::gateway

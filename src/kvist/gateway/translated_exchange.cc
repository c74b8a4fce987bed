#include "kvist/gateway/translated_exchange.h"

#include <fmt/format.h>

#include <utility>

#include "kvist/gateway/proxy_headers.h"
#include "kvist/net/media_type.h"
#include "kvist/openai/errors.h"

namespace kvist::gateway {
namespace {

constexpr int kFirstError = 300;
constexpr int kFirstClientError = 400;

std::string request_id_of(const net::Headers& headers) {
  return std::string(headers.find(kRequestIdHeader).value_or(""));
}

// The other place is one of chat completions, where the client could do nothing.
void refuse_redirection(net::HttpResponse& response) {
  const Error error{ErrorCode::kCorrupt, fmt::format("the worker answered with a redirection ({})", response.status)};
  response.status = openai::http_status(error.code);
  response.body = openai::error_body(error);
  response.headers.remove("Location");
}

}  // namespace

// Anthropic's clients look for it under this name.
void add_request_id(dialects::Dialect dialect, net::Headers& headers) {
  const std::string id = request_id_of(headers);
  if (dialect != dialects::Dialect::kResponses && !id.empty()) headers.set("request-id", id);
}

TranslatedExchange::TranslatedExchange(net::EventLoop& loop, dialects::Dialect dialect,
                                       std::unique_ptr<dialects::AnswerTranslator> answer,
                                       std::shared_ptr<net::HttpExchange> client)
    : loop_(&loop),
      dialect_(dialect),
      answer_(std::move(answer)),
      client_(std::move(client)),
      on_gone_(std::make_shared<std::function<void()>>()) {}

void TranslatedExchange::respond(net::HttpResponse response) {
  if (std::exchange(ended_, true)) return;
  add_request_id(dialect_, response.headers);
  if (response.status >= kFirstError && response.status < kFirstClientError) refuse_redirection(response);
  if (response.status < kFirstError) {
    Result<std::string> translated = answer_->whole(response.body);
    if (translated) {
      response.body = *std::move(translated);
      return send(std::move(response));
    }
    const Error error = std::move(translated).error().in("the worker's answer is no chat completion");
    response.status = openai::http_status(error.code);
    response.body = openai::error_body(error);
  }
  response.body = dialects::error_body(dialect_, response.status, response.body, request_id_of(response.headers));
  response.headers.set("Content-Type", "application/json");
  send(std::move(response));
}

void TranslatedExchange::send(net::HttpResponse response) {
  status_ = response.status;
  client_->respond(std::move(response));
}

void TranslatedExchange::begin_stream(int status, net::Headers headers) {
  collects_ = status >= kFirstError || !net::has_media_type(headers, "text/event-stream");
  if (collects_) {
    whole_ = {.status = status, .headers = std::move(headers), .body = {}};
    return;
  }
  add_request_id(dialect_, headers);
  status_ = status;
  client_->begin_stream(status, std::move(headers));
}

void TranslatedExchange::write(std::string_view data) {
  if (ended_) return;
  if (collects_) return collect(data);
  translate(data);
}

void TranslatedExchange::collect(std::string_view data) {
  if (whole_.body.size() + data.size() <= kMaxWholeBytes) {
    whole_.body += data;
    return;
  }
  respond({.status = 502, .headers = {}, .body = openai::error_body({ErrorCode::kCorrupt, "the answer is too long"})});
  leave();
}

void TranslatedExchange::translate(std::string_view data) {
  events_.clear();
  if (const auto fed = parser_.feed(data); !fed) return fail_stream(fed.error());
  net::SseParser::Event event;
  while (parser_.next(event)) {
    // A comment that keeps the stream alive does so in any API.
    if (event.data.empty()) {
      if (event.raw.starts_with(':')) events_ += event.raw;
      continue;
    }
    if (const auto done = answer_->on_event(event.data, events_); !done) return fail_stream(done.error());
  }
  client_->write(events_);
}

void TranslatedExchange::fail_stream(const Error& error) {
  ended_ = true;
  answer_->on_error(error.message, events_);
  client_->write(events_);
  client_->end_stream();
  leave();
}

// Posted, because the proxy is calling this object now.
void TranslatedExchange::leave() {
  loop_->post([gone = on_gone_] {
    if (const auto handler = std::exchange(*gone, nullptr)) handler();
  });
}

void TranslatedExchange::end_stream() {
  if (ended_) return;
  if (collects_) return respond(std::move(whole_));
  ended_ = true;
  events_.clear();
  answer_->end(events_);
  client_->write(events_);
  client_->end_stream();
}

// While an answer is collected, the client has nothing of it and can still be told.
void TranslatedExchange::abort() {
  if (collects_ && !ended_) {
    const Error error{ErrorCode::kUnavailable, "the worker broke off its answer"};
    net::HttpResponse answer{
        .status = openai::http_status(error.code), .headers = {}, .body = openai::error_body(error)};
    if (const std::string id = request_id_of(whole_.headers); !id.empty()) answer.headers.set(kRequestIdHeader, id);
    return respond(std::move(answer));
  }
  ended_ = true;
  client_->abort();
}

void TranslatedExchange::on_client_gone(std::function<void()> handler) {
  *on_gone_ = std::move(handler);
  client_->on_client_gone([gone = on_gone_] {
    if (const auto left = std::exchange(*gone, nullptr)) left();
  });
}

}  // namespace kvist::gateway

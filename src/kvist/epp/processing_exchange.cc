#include "kvist/epp/processing_exchange.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "kvist/epp/ext_proc_codec.h"

namespace kvist::epp {
namespace {

bool can_pick_in(BodyMode mode) {
  return mode == BodyMode::kFullDuplexStreamed || mode == BodyMode::kBuffered;
}

bool can_learn_in(BodyMode mode) {
  return mode == BodyMode::kFullDuplexStreamed || mode == BodyMode::kStreamed;
}

bool is_of_answer(Part part) {
  return part == Part::kResponseHeaders || part == Part::kResponseBody || part == Part::kResponseTrailers;
}

net::Headers without_pseudo(const net::Headers& all) {
  net::Headers headers;
  for (const auto& [name, value] : all.fields())
    if (!name.starts_with(':')) headers.add(name, value);
  return headers;
}

// 0: none.
int status_of(const net::Headers& headers) {
  const std::string_view text = headers.find(":status").value_or("");
  int status = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), status);
  return error == std::errc{} && end == text.data() + text.size() ? status : 0;
}

// What Envoy says of an answer that it has made up itself (envoyproxy.io, "Response code details").
AnswerPart made_up(const std::string& details) {
  const auto begins = [&](std::string_view with) { return details.starts_with(with); };
  if (begins("upstream_response_timeout") || begins("upstream_per_try") || begins("response_timeout") ||
      begins("stream_idle_timeout"))
    return {.lost = Error{ErrorCode::kDeadlineExceeded, "the proxy waited for an answer in vain: " + details}};
  if (begins("upstream_reset") || begins("no_healthy_upstream") || begins("upstream_max_stream_duration") ||
      begins("maintenance_mode") || begins("connection_timeout"))
    return {.lost = Error{ErrorCode::kUnavailable, "the proxy got no answer: " + details}};
  return {.withheld = true};
}

}  // namespace

ExchangeActions ProcessingExchange::fail_stream(StreamEnd::Code code, std::string message) {
  phase_ = Phase::kOver;
  ExchangeActions actions;
  actions.end = StreamEnd{.code = code, .message = std::move(message)};
  return actions;
}

ExchangeActions ProcessingExchange::out_of_turn(Part part) {
  return fail_stream(StreamEnd::Code::kInvalidArgument, fmt::format("{} came out of turn", to_string(part)));
}

ExchangeActions ProcessingExchange::on_message(ProcessingRequest message) {
  if (phase_ == Phase::kOver) return {};
  if (message.observes_only) {
    return fail_stream(StreamEnd::Code::kFailedPrecondition,
                       "the filter only observes (observability_mode): no worker can be picked");
  }
  if (message.protocol) protocol_ = *message.protocol;
  if (message.subset) subset_ = std::move(message.subset);
  if (is_of_answer(message.part)) return on_answer(std::move(message));
  switch (message.part) {
    case Part::kRequestHeaders:
      return on_request_headers(std::move(message));
    case Part::kRequestBody:
      return on_request_body(message);
    default:
      return on_request_trailers();
  }
}

ExchangeActions ProcessingExchange::on_request_headers(ProcessingRequest message) {
  if (phase_ != Phase::kHeaders) return out_of_turn(message.part);
  if (!message.end_of_stream && !can_pick_in(protocol_.request_body)) {
    return fail_stream(
        StreamEnd::Code::kFailedPrecondition,
        fmt::format("the filter's request_body_mode is {}: a worker is picked by the body, so it has to be "
                    "FULL_DUPLEX_STREAMED or BUFFERED",
                    to_string(protocol_.request_body)));
  }
  if (!can_learn_in(protocol_.response_body)) {
    return fail_stream(
        StreamEnd::Code::kFailedPrecondition,
        fmt::format("the filter's response_body_mode is {}: loads and speeds are learned from answers, so "
                    "it has to be FULL_DUPLEX_STREAMED or STREAMED",
                    to_string(protocol_.response_body)));
  }
  request_.method = message.headers.find(":method").value_or("");
  request_.target = message.headers.find(":path").value_or("");
  request_.headers = without_pseudo(message.headers);
  bodiless_ = message.end_of_stream;
  phase_ = Phase::kBody;
  if (bodiless_) return pick();
  ExchangeActions actions;
  if (!is_full_duplex()) actions.replies.push_back(write_continue(Part::kRequestHeaders));
  return actions;
}

ExchangeActions ProcessingExchange::on_request_body(const ProcessingRequest& message) {
  if (phase_ != Phase::kBody) return out_of_turn(message.part);
  if (request_.body.size() + message.body.size() > max_body_bytes_) {
    ExchangeActions actions;
    actions.refused =
        Error{ErrorCode::kTooLarge, fmt::format("the body of the request is larger than {} bytes", max_body_bytes_)};
    return actions;
  }
  request_.body += message.body;
  // A buffered body is whole with its only message.
  if (message.end_of_stream || !is_full_duplex()) return pick();
  return {};
}

ExchangeActions ProcessingExchange::on_request_trailers() {
  if (phase_ == Phase::kBody && is_full_duplex()) {
    trailers_ = true;
    return pick();
  }
  // Behind a buffered body that was answered already.
  if (phase_ < Phase::kPicking || is_full_duplex()) return out_of_turn(Part::kRequestTrailers);
  ExchangeActions actions;
  actions.replies.push_back(write_continue(Part::kRequestTrailers));
  return actions;
}

ExchangeActions ProcessingExchange::pick() {
  phase_ = Phase::kPicking;
  ExchangeActions actions;
  actions.request = std::move(request_);
  return actions;
}

ExchangeActions ProcessingExchange::on_picked(const std::vector<std::string>& endpoints, std::string_view body) {
  if (phase_ != Phase::kPicking) return {};
  phase_ = Phase::kServed;
  ExchangeActions actions;
  const bool buffered = !bodiless_ && !is_full_duplex();
  const Part part = buffered ? Part::kRequestBody : Part::kRequestHeaders;
  actions.replies.push_back(write_destination(part, fmt::format("{}", fmt::join(endpoints, ","))));
  bool parts = !buffered && !bodiless_ && !(trailers_ && body.empty());
  while (parts) {
    const std::string_view first = body.substr(0, kMostPartBytes);
    body.remove_prefix(first.size());
    actions.replies.push_back(write_body_part(Part::kRequestBody, first, body.empty() && !trailers_));
    parts = !body.empty();
  }
  if (trailers_) actions.replies.push_back(write_continue(Part::kRequestTrailers));
  return actions;
}

ExchangeActions ProcessingExchange::on_refused(const ImmediateResponse& response) {
  if (phase_ == Phase::kOver) return {};
  phase_ = Phase::kOver;
  ExchangeActions actions;
  actions.replies.push_back(write_immediate(response));
  actions.end.emplace();
  return actions;
}

ExchangeActions ProcessingExchange::on_answer(ProcessingRequest message) {
  ExchangeActions actions;
  const Part part = message.part;
  if (part == Part::kResponseHeaders) {
    if (phase_ == Phase::kHeaders || phase_ == Phase::kAnswer) return out_of_turn(part);
    const bool picked = phase_ == Phase::kServed;
    phase_ = message.end_of_stream ? Phase::kOver : Phase::kAnswer;
    AnswerPart answer;
    if (!picked || (!message.code_details.empty() && message.code_details != "via_upstream")) {
      answer = picked ? made_up(message.code_details) : AnswerPart{.withheld = true};
      // What answers in its place comes before the answer to this message, if at all.
      if (answer.lost) phase_ = Phase::kServed;
    } else {
      answer.head = AnswerPart::Head{.status = status_of(message.headers),
                                     .headers = without_pseudo(message.headers),
                                     .served = std::move(message.served)};
      answer.ended = message.end_of_stream;
    }
    if (!answer.lost) actions.replies.push_back(write_continue(part));
    actions.answer = std::move(answer);
    return actions;
  }
  if (phase_ != Phase::kAnswer) return out_of_turn(part);
  const bool echoed = part == Part::kResponseBody && protocol_.response_body == BodyMode::kFullDuplexStreamed;
  actions.replies.push_back(echoed ? write_body_part(part, message.body, message.end_of_stream) : write_continue(part));
  if (message.end_of_stream) phase_ = Phase::kOver;
  actions.answer = AnswerPart{.body = std::move(message.body), .ended = message.end_of_stream};
  return actions;
}

}  // namespace kvist::epp

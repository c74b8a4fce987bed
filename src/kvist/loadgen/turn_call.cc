#include "kvist/loadgen/turn_call.h"

#include <fmt/format.h>

#include <charconv>
#include <utility>

#include "kvist/loadgen/redaction.h"
#include "kvist/openai/codec.h"
#include "kvist/openai/completion_request.h"
#include "kvist/workload/session_name.h"

namespace kvist::loadgen {
namespace {

/// Bounds of an error's body and of the message of a failed turn.
constexpr std::size_t kMaxErrorBodyBytes = 8192;
constexpr std::size_t kMaxMessageBytes = 512;

std::string body_of(const Target& target, workload::StartTurn& turn) {
  if (target.prompt_ids) {
    return openai::token_request_body({.model = target.model,
                                       .prompt = target.prompt_ids->of(turn.messages),
                                       .max_tokens = turn.max_tokens,
                                       .seed = turn.seed,
                                       .ignore_eos = turn.ignore_eos});
  }
  return openai::chat_request_body({.model = target.model,
                                    .messages = std::move(turn.messages),
                                    .max_tokens = turn.max_tokens,
                                    .seed = turn.seed,
                                    .ignore_eos = turn.ignore_eos,
                                    .stream = true});
}

net::HttpRequest request_for(const Target& target, workload::StartTurn& turn) {
  net::HttpRequest request;
  request.method = "POST";
  request.target = target.path;
  request.headers.add("Content-Type", "application/json");
  request.headers.add("Accept", "text/event-stream");
  request.headers.add("X-Request-Id", fmt::format("{}-{}-{}", target.request_id, turn.conversation.value(), turn.turn));
  request.headers.add("X-Session-ID", workload::session_name(target.run_seed, turn.session_or_conversation()));
  for (const auto& [name, value] : target.headers.fields()) request.headers.add(name, value);
  request.body = body_of(target, turn);
  return request;
}

std::optional<std::uint32_t> read_count(std::optional<std::string_view> text) {
  std::uint32_t value = 0;
  if (!text) return std::nullopt;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || end != text->data() + text->size()) return std::nullopt;
  return value;
}

/// The message in the body of an error in the OpenAI API's form, otherwise the beginning of the body.
std::string error_text(std::string_view body) {
  if (const Result<openai::ChunkView> view = openai::parse_chunk(body); view && view->error) return *view->error;
  return std::string(body);
}

bool is_event_stream(const net::Headers& headers) {
  constexpr std::string_view kStream = "text/event-stream";
  const std::string_view type = headers.find("Content-Type").value_or("");
  // Names of types are equal in any case (RFC 9110, 8.3.1).
  return net::equals_no_case(type.substr(0, kStream.size()), kStream);
}

}  // namespace

TurnCall::TurnCall(net::HttpClient& client, const Target& target, workload::StartTurn turn, TurnListener& listener)
    : target_(&target),
      listener_(&listener),
      timeout_(target.timeout),
      most_tokens_(turn.max_tokens),
      clock_(turn.conversation, turn.turn, turn.intended),
      reader_(clock_) {
  clock_.on_session(turn.session);
  clock_.on_ready(turn.ready_or_intended());
  net::HttpRequest request = request_for(target, turn);
  clock_.on_handed(net::now());
  // Counts only until the socket has taken the request, or if the server answers before that.
  clock_.on_sent(net::now());
  call_ = client.start(target.url, std::move(request), target.timeout, handlers());
}

workload::TurnSample TurnCall::abandon(TimePoint now) {
  finished_ = true;
  call_.reset();
  return clock_.finish(workload::TurnOutcome::kAbandoned, "", now);
}

net::CallHandlers TurnCall::handlers() {
  return {.on_sent =
              [this](TimePoint at) {
                clock_.on_sent(at);
                clock_.on_longest_send(call_->longest_send());
              },
          .on_head = [this](int status, const net::Headers& headers) { on_head(status, headers); },
          .on_body = [this](std::string_view data, TimePoint at) { on_body(data, at); },
          .on_end = [this](const net::CallTimes& /*times*/) { on_end(); },
          .on_error = [this](const Error& error, bool /*answered*/) { on_error(error); }};
}

void TurnCall::on_head(int status, const net::Headers& headers) {
  if (finished_) return;
  status_ = status;
  clock_.on_route(std::string(headers.find("x-kvist-worker").value_or("")),
                  read_count(headers.find("x-kvist-predicted-cached-tokens")));
  if (status == 200 && !is_event_stream(headers)) {
    fail_turn(fmt::format("asked for a stream, got {}", headers.find("Content-Type").value_or("no Content-Type")),
              net::now());
  }
}

void TurnCall::on_body(std::string_view data, TimePoint at) {
  if (finished_) return;
  if (status_ != 200) {
    error_body_.append(data.substr(0, kMaxErrorBodyBytes - error_body_.size()));
    return;
  }
  const std::uint32_t chunks_before = clock_.sample().chunks;
  const std::uint64_t events_before = reader_.events();
  const Result<void> result = reader_.feed(data, at);
  const std::uint32_t chunks = clock_.sample().chunks - chunks_before;
  if (chunks > 0) {
    // If a piece is one event, its last bytes made it whole. If it is several, the first events may have come earlier.
    const bool one_event = reader_.events() == events_before + 1 && reader_.between_events();
    const net::PieceAge age = call_->piece_age(one_event ? net::HttpCall::Bytes::kLast : net::HttpCall::Bytes::kAll);
    clock_.on_age(chunks, {.at_least = age.at_least, .at_most = age.at_most, .stamped = age.stamped});
    std::optional<Duration> ttft;
    if (chunks_before == 0) ttft = clock_.sample().first_token - clock_.sample().sent;
    const std::span<const float> gaps(clock_.sample().gaps_ms);
    listener_->on_content(at, chunks, ttft, gaps.last(chunks_before == 0 ? chunks - 1 : chunks));
  }
  if (!result) fail_turn(result.error().message, at);
}

void TurnCall::on_end() {
  if (finished_) return;
  if (status_ != 200) return fail_turn(fmt::format("HTTP {}: {}", status_, error_text(error_body_)), net::now());
  if (const Result<void> whole = reader_.check_whole(); !whole) return fail_turn(whole.error().message, net::now());
  succeed(reader_.done_at());
}

void TurnCall::on_error(const Error& error) {
  if (finished_) return;
  // After [DONE] the answer is complete. A connection that breaks afterwards only makes the next turn connect again.
  if (reader_.check_whole()) return succeed(reader_.done_at());
  if (error.code == ErrorCode::kDeadlineExceeded) {
    return fail_turn(fmt::format("no whole answer within {:g} s", to_seconds(timeout_)), net::now());
  }
  fail_turn(error.message, net::now());
}

void TurnCall::succeed(TimePoint ended) {
  finished_ = true;
  std::string reply = reader_.take_reply();
  // As ids a message has one token per byte. The number of the answer's ids is known, but not which they were. A server
  // may report more than it was asked for.
  if (target_->count_tokens && clock_.sample().completion_tokens == 0) {
    clock_.on_counted_tokens(target_->count_tokens(reply) + reader_.chunks_beside_reply());
  }
  if (target_->prompt_ids && !target_->prompt_ids->encodes_text())
    reply.resize(std::min(clock_.sample().output_tokens(), most_tokens_), ' ');
  listener_->on_finished(clock_.finish(workload::TurnOutcome::kSucceeded, "", ended), std::move(reply), status_);
}

void TurnCall::fail_turn(const std::string& what, TimePoint ended) {
  finished_ = true;
  const std::string told = without_secrets(what, target_->secrets).substr(0, kMaxMessageBytes);
  listener_->on_finished(clock_.finish(workload::TurnOutcome::kFailed, told, ended), "", status_);
}

}  // namespace kvist::loadgen

#include "kvist/gateway/proxied_request.h"

#include <fmt/format.h>

#include <utility>

#include "kvist/gateway/error_answer.h"
#include "kvist/gateway/proxy_headers.h"
#include "kvist/openai/codec.h"
#include "kvist/openai/errors.h"
#include "kvist/telemetry/log.h"

namespace kvist::gateway {
namespace {

using dispatch::AttemptFailure;
using dispatch::Outcome;

/// A client that is behind by more than this stops its worker; it goes on when the client has caught up to the other.
constexpr std::size_t kPauseAboveBytes = 256U << 10;
constexpr std::size_t kResumeBelowBytes = 64U << 10;
/// Of an answer that is not a stream.
constexpr std::size_t kMaxWholeAnswerBytes = 64U << 20;

bool is_event_stream(const net::Headers& headers) {
  return headers.find("Content-Type").value_or("").starts_with("text/event-stream");
}

Outcome outcome_of_status(int status) {
  if (status < 400) return Outcome::kCompleted;
  return status < 500 ? Outcome::kRefused : Outcome::kWorkerError;
}

}  // namespace

ProxiedRequest::ProxiedRequest(const ProxyParts& parts, ProxyJob job, RequestId id,
                               std::function<void(RequestId, Outcome)> on_over)
    : parts_(&parts), job_(std::move(job)), id_(id), on_over_(std::move(on_over)), relay_(job_.usage_wanted) {}

void ProxiedRequest::start(const dispatch::Ticket& ticket) {
  job_.exchange->on_client_gone([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->on_client_gone();
  });
  if (!ticket.waits) attempt(ticket.decision);
}

void ProxiedRequest::on_ready(const Result<routing::Decision>& decision) {
  if (decision) return attempt(*decision);
  fail_with(decision.error(), Outcome::kNoWorker);
}

void ProxiedRequest::attempt(const routing::Decision& decision) {
  phase_ = Phase::kWaiting;
  worker_ = decision.worker;
  predicted_cached_tokens_ = decision.predicted_cached_tokens;
  body_.clear();
  relay_ = AnswerRelay(job_.usage_wanted);
  // The deadline is that of the request, however many workers it takes.
  const Duration left = job_.arrived + parts_->upstream_timeout - net::now();
  call_ = parts_->client->start((*parts_->workers)[worker_.value()].url, job_.request, left, handlers());
}

net::CallHandlers ProxiedRequest::handlers() {
  const std::weak_ptr<ProxiedRequest> weak = weak_from_this();
  return {.on_sent = {},
          .on_head =
              [weak](int status, const net::Headers& headers) {
                if (const auto self = weak.lock()) self->on_head(status, headers);
              },
          .on_body =
              [weak](std::string_view data, TimePoint at) {
                if (const auto self = weak.lock()) self->on_body(data, at);
              },
          .on_end =
              [weak](const net::CallTimes& /*times*/) {
                if (const auto self = weak.lock()) self->on_end();
              },
          .on_error =
              [weak](const Error& error, bool /*answered*/) {
                if (const auto self = weak.lock()) self->on_error(error);
              }};
}

void ProxiedRequest::on_head(int status, const net::Headers& headers) {
  back_pressure_ = status == 429 || status == 503;
  if (back_pressure_) {
    const auto next = parts_->dispatcher->on_attempt_failed(id_, AttemptFailure::kBackPressure,
                                                            fmt::format("status {}", status), net::now());
    if (next) return attempt(*next);
  }
  status_ = status;
  headers_ = headers_for_client(headers, job_.request_id);
  headers_.set(kWorkerHeader, (*parts_->workers)[worker_.value()].name);
  headers_.set(kPredictedCachedTokensHeader, std::to_string(predicted_cached_tokens_));
  phase_ = status < 300 && is_event_stream(headers) ? Phase::kStreaming : Phase::kWhole;
}

void ProxiedRequest::on_body(std::string_view data, TimePoint at) {
  if (phase_ == Phase::kStreaming) return relay(data, at);
  if (body_.size() + data.size() > kMaxWholeAnswerBytes) {
    return fail_with({ErrorCode::kCorrupt, "the worker's answer is larger than any bound"}, Outcome::kWorkerError);
  }
  body_ += data;
}

void ProxiedRequest::relay(std::string_view data, TimePoint at) {
  events_.clear();
  const StreamState before = relay_.state();
  const auto fed = relay_.feed(data, events_);
  take_note(before, at);
  if (!events_.empty()) send_events(events_);
  if (!fed && phase_ == Phase::kStreaming) on_error(fed.error());
}

void ProxiedRequest::take_note(const StreamState& before, TimePoint at) {
  const StreamState& state = relay_.state();
  if (state.first_token && !before.first_token) {
    parts_->counters->time_to_first_token.observe(at - job_.arrived);
    parts_->dispatcher->on_first_token(id_, at);
  }
  if (state.tokens > before.tokens) parts_->dispatcher->on_progress(id_, state.tokens - before.tokens, at);
  parts_->counters->unreadable_chunks += state.unreadable - before.unreadable;
}

void ProxiedRequest::send_events(std::string_view events) {
  net::HttpExchange& exchange = *job_.exchange;
  if (!stream_begun_) {
    stream_begun_ = true;
    exchange.begin_stream(status_, headers_);
    exchange.on_drained(kResumeBelowBytes, [weak = weak_from_this()] {
      const auto self = weak.lock();
      if (self && self->call_) self->call_->resume();
    });
  }
  exchange.write(events);
  if (call_ && exchange.unsent_bytes() > kPauseAboveBytes) {
    ++parts_->counters->pauses;
    call_->pause();
  }
}

void ProxiedRequest::on_end() {
  if (phase_ == Phase::kStreaming) {
    end_stream();
  } else {
    end_whole();
  }
}

void ProxiedRequest::report_usage(const openai::Usage& usage) {
  // A server that is silent about its cache says nothing against what was predicted.
  if (usage.reports_cached_tokens) parts_->dispatcher->on_usage(id_, usage.prompt_tokens, usage.cached_tokens);
}

void ProxiedRequest::end_whole() {
  if (status_ < 300 && job_.prediction_is_whole) {
    const auto answer = openai::parse_chunk(body_);
    if (answer && answer->usage) report_usage(*answer->usage);
  }
  job_.exchange->respond({.status = status_, .headers = std::move(headers_), .body = std::move(body_)});
  over(back_pressure_ ? Outcome::kBackPressure : outcome_of_status(status_));
}

void ProxiedRequest::end_stream() {
  // What follows the last event is passed on too: it is the worker's, and the end is an orderly one.
  const std::string rest(relay_.rest());
  send_events(rest);
  const StreamState& state = relay_.state();
  if (state.usage && job_.prediction_is_whole) report_usage(*state.usage);
  job_.exchange->end_stream();
  over(state.error ? Outcome::kWorkerError : Outcome::kCompleted);
}

void ProxiedRequest::on_error(const Error& error) {
  const TimePoint now = net::now();
  const std::string& worker = (*parts_->workers)[worker_.value()].name;
  telemetry::log_warning("proxy", fmt::format("request {} at {}: {}", job_.request_id, worker, error.message));
  if (stream_begun_) {
    // After [DONE] nothing is missing that the client could want.
    if (relay_.state().done) return end_stream();
    parts_->dispatcher->on_stream_broken(id_, error.message, now);
    return break_stream({ErrorCode::kUnavailable, "the worker broke off its answer"});
  }
  const bool timed_out = error.code == ErrorCode::kDeadlineExceeded;
  // The answer of a worker that pushes back was being passed on: that attempt is over already.
  if (!back_pressure_ || phase_ == Phase::kWaiting) {
    const auto next = parts_->dispatcher->on_attempt_failed(
        id_, timed_out ? AttemptFailure::kTimedOut : AttemptFailure::kTransport, error.message, now);
    if (next) return attempt(*next);
  }
  // The worker's address is not the client's business: the log has it.
  if (timed_out) {
    return fail_with({ErrorCode::kDeadlineExceeded, "no worker answered in time"}, Outcome::kTimedOut);
  }
  fail_with({ErrorCode::kUnavailable, "no worker could answer the request"}, Outcome::kUpstreamFailed);
}

void ProxiedRequest::break_off(const Error& error) {
  if (stream_begun_) return break_stream(error);
  fail_with(error, Outcome::kUpstreamFailed);
}

void ProxiedRequest::on_worker_stalled(WorkerId worker) {
  if (worker != worker_ || phase_ != Phase::kWaiting) return;
  if (const auto next = parts_->dispatcher->leave_stalled(id_, net::now())) attempt(*next);
}

void ProxiedRequest::on_worker_lost(WorkerId worker) {
  if (worker != worker_ || phase_ == Phase::kOver || phase_ == Phase::kQueued) return;
  call_.reset();
  on_error({ErrorCode::kUnavailable, "the worker stands still and answers no health check"});
}

void ProxiedRequest::fail_with(const Error& error, Outcome outcome) {
  job_.exchange->respond(error_answer(error, job_.request_id));
  over(outcome);
}

void ProxiedRequest::break_stream(const Error& error) {
  std::string frame;
  net::append_sse_data(frame, openai::error_body(error));
  const std::shared_ptr<net::HttpExchange> exchange = job_.exchange;
  exchange->write(frame);
  if (exchange->unsent_bytes() == 0) {
    exchange->abort();
  } else {
    // The frame still waits behind what the client has not read; the server bounds how long.
    exchange->on_drained(0, [exchange] { exchange->abort(); });
  }
  over(Outcome::kBrokenStream);
}

void ProxiedRequest::on_client_gone() {
  if (phase_ != Phase::kOver) over(Outcome::kClientGone);
}

void ProxiedRequest::over(Outcome outcome) {
  phase_ = Phase::kOver;
  call_.reset();  // an unfinished call is aborted, which frees the worker's batch slot
  job_.exchange.reset();
  on_over_(id_, outcome);
}

}  // namespace kvist::gateway

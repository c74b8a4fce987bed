#include "kvist/gateway/proxied_request.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
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

/// Of an answer whose end is known, so that it is collected and has a length for the client too.
constexpr std::uint64_t kMaxCollectedBytes = 1U << 20;

Outcome outcome_of_status(int status) {
  if (status < 400) return Outcome::kCompleted;
  if (status == 429 || status == 503) return Outcome::kBackPressure;
  return status < 500 ? Outcome::kRefused : Outcome::kWorkerError;
}

// Statuses that speak of the worker and not of the request: another worker may do better.
std::optional<AttemptFailure> failure_of_status(int status) {
  if (status == 429 || status == 503) return AttemptFailure::kBackPressure;
  if (status == 500 || status == 502 || status == 504) return AttemptFailure::kServerError;
  return std::nullopt;
}

bool is_short(const net::Headers& headers) {
  const std::string_view text = headers.find("Content-Length").value_or("");
  std::uint64_t length = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), length);
  return error == std::errc{} && !text.empty() && end == text.data() + text.size() && length <= kMaxCollectedBytes;
}

}  // namespace

ProxiedRequest::ProxiedRequest(ProxyParts& parts, ProxyJob job, dispatch::DispatchHandle request,
                               std::function<void(ProxiedRequest&, Outcome)> on_over)
    : parts_(&parts),
      job_(std::move(job)),
      request_(request),
      on_over_(std::move(on_over)),
      relay_(job_.usage_wanted) {}

void ProxiedRequest::start(const dispatch::Ticket& ticket) {
  job_.exchange->on_client_gone([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->on_client_gone();
  });
  attempt(ticket.decision);
}

void ProxiedRequest::attempt(const routing::Decision& decision) {
  phase_ = Phase::kWaiting;
  attempt_over_ = error_noted_ = false;
  worker_ = decision.worker;
  attempt_ = decision.request;
  predicted_cached_tokens_ = decision.predicted_cached_tokens;
  body_.clear();
  relay_ = AnswerRelay(job_.usage_wanted, parts_->fingerprints[worker_.value()]);
  // The deadline is that of the request, however many workers it takes.
  const Duration left = job_.arrived + parts_->upstream_timeout - net::now();
  call_ = parts_->client->start((*parts_->workers)[worker_.value()].url, job_.request, left, handlers());
}

bool ProxiedRequest::leave(AttemptFailure failure, std::string_view problem) {
  const WorkerId failed = worker_;
  attempt_over_ = true;
  const auto next = parts_->dispatcher->on_attempt_failed(request_, failure, problem, net::now());
  if (failure != AttemptFailure::kBackPressure) parts_->on_doubt(failed);
  if (next) attempt(*next);
  return next.has_value();
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
  if (const auto failure = failure_of_status(status)) {
    const spec::UpstreamSpec& worker = (*parts_->workers)[worker_.value()];
    if (*failure == AttemptFailure::kServerError)
      telemetry::log_warning("proxy", fmt::format("request {} at {}: status {}", job_.request_id, worker.name, status));
    if (leave(*failure, fmt::format("answered a request with status {}", status))) return;
  }
  const spec::UpstreamSpec& worker = (*parts_->workers)[worker_.value()];
  status_ = status;
  headers_ = headers_for_client(headers, job_.request_id, worker.url);
  headers_.set(kWorkerHeader, worker.name);
  if (job_.kind == RequestKind::kRead)
    headers_.set(kPredictedCachedTokensHeader, std::to_string(predicted_cached_tokens_));
  if (job_.kind == RequestKind::kOther) {
    phase_ = is_short(headers) ? Phase::kWhole : Phase::kPassing;
  } else {
    phase_ = status < 300 && is_event_stream(headers) ? Phase::kStreaming : Phase::kWhole;
  }
}

void ProxiedRequest::on_body(std::string_view data, TimePoint at) {
  if (phase_ == Phase::kStreaming) return relay(data, at);
  if (phase_ == Phase::kPassing) return send_events(data);
  if (body_.size() + data.size() > kMaxWholeAnswerBytes) {
    return fail_with({ErrorCode::kCorrupt, "the worker's answer is larger than any bound"}, Outcome::kWorkerError);
  }
  body_ += data;
}

void ProxiedRequest::relay(std::string_view data, TimePoint at) {
  events_.clear();
  const StreamState& state = relay_.state();
  const bool first_before = state.first_token;
  const std::uint64_t tokens_before = state.tokens;
  const std::uint64_t unreadable_before = state.unreadable;
  const auto fed = relay_.feed(data, events_);
  parts_->counters->unreadable_chunks += state.unreadable - unreadable_before;
  if (state.server_failed() && !error_noted_) {
    note_error();
    if (!stream_begun_ && leave(AttemptFailure::kServerError, *state.error)) return;
  }
  take_note(tokens_before, first_before, at);
  if (!events_.empty()) send_events(events_);
  if (!fed && phase_ == Phase::kStreaming) on_error(fed.error());
}

// An engine that died makes its server end streams in order: an error frame and [DONE].
void ProxiedRequest::note_error() {
  const std::string& worker = (*parts_->workers)[worker_.value()].name;
  const std::string problem = *relay_.state().error;
  telemetry::log_warning("proxy", fmt::format("request {} at {}: {}", job_.request_id, worker, problem));
  ++parts_->counters->error_frames;
  error_noted_ = true;
  if (!stream_begun_) return;
  parts_->dispatcher->on_stream_error(request_, problem, net::now());
  parts_->on_doubt(worker_);
}

void ProxiedRequest::take_note(std::uint64_t tokens_before, bool first_before, TimePoint at) {
  if (job_.kind != RequestKind::kRead || attempt_over_) return;
  const StreamState& state = relay_.state();
  if (state.first_token && !first_before) {
    parts_->counters->time_to_first_token.observe(at - job_.arrived);
    parts_->dispatcher->on_first_token(attempt_, at);
  }
  if (state.tokens > tokens_before) parts_->dispatcher->on_progress(attempt_, state.tokens - tokens_before, at);
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
  if (phase_ == Phase::kWhole) return end_whole();
  end_stream();
}

void ProxiedRequest::report_usage(const openai::Usage& usage) {
  if (job_.kind != RequestKind::kRead || !job_.prediction_is_whole) return;
  // A server that is silent about its cache says nothing against what was predicted.
  if (usage.reports_cached_tokens) parts_->dispatcher->on_usage(attempt_, usage.prompt_tokens, usage.cached_tokens);
}

// Several answers to one prompt are made side by side: their mean length tells how many steps there were.
void ProxiedRequest::report_whole(const openai::Usage& usage) {
  routing::WholeAnswer answer{.tokens = usage.completion_tokens / std::max(1U, job_.choices),
                              .prompt_tokens = usage.prompt_tokens};
  if (usage.reports_cached_tokens) answer.cached_tokens = usage.cached_tokens;
  parts_->dispatcher->on_whole_answer(attempt_, answer, net::now());
}

void ProxiedRequest::end_whole() {
  if (status_ < 300 && job_.kind == RequestKind::kRead) {
    const auto answer = openai::parse_chunk(body_);
    if (answer && answer->usage) {
      if (job_.prediction_is_whole) report_whole(*answer->usage);
      report_usage(*answer->usage);
    }
    if (answer && !answer->system_fingerprint.empty())
      parts_->fingerprints[worker_.value()] = answer->system_fingerprint;
  }
  job_.exchange->respond({.status = status_, .headers = std::move(headers_), .body = std::move(body_)});
  over(outcome_of_status(status_));
}

void ProxiedRequest::end_stream() {
  if (phase_ == Phase::kStreaming) {
    const StreamState& state = relay_.state();
    if (!state.has_end()) {
      ++parts_->counters->unended_streams;
      return on_error({ErrorCode::kCorrupt, "the stream ended without finish_reason, usage or [DONE]"});
    }
    events_.clear();
    relay_.release(events_);
    // What follows the last event is passed on too: it is the worker's, and the end is an orderly one.
    events_ += relay_.rest();
    if (state.usage) report_usage(*state.usage);
    if (!state.fingerprint.empty()) parts_->fingerprints[worker_.value()] = state.fingerprint;
    send_events(events_);
  } else {
    send_events("");
  }
  job_.exchange->end_stream();
  over(relay_.state().error ? Outcome::kWorkerError : outcome_of_status(status_));
}

void ProxiedRequest::on_error(const Error& error) {
  const TimePoint now = net::now();
  const std::string& worker = (*parts_->workers)[worker_.value()].name;
  telemetry::log_warning("proxy", fmt::format("request {} at {}: {}", job_.request_id, worker, error.message));
  if (stream_begun_) {
    // After [DONE] nothing is missing that the client could want.
    if (relay_.state().done) return end_stream();
    parts_->dispatcher->on_stream_broken(request_, error.message, now);
    parts_->on_doubt(worker_);
    return break_stream({ErrorCode::kUnavailable, "the worker broke off its answer"});
  }
  const bool timed_out = error.code == ErrorCode::kDeadlineExceeded;
  // Where the answer of an attempt that had failed was being passed on, that attempt is over already.
  if (!attempt_over_ && leave(timed_out ? AttemptFailure::kTimedOut : AttemptFailure::kTransport, error.message))
    return;
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
  if (const auto next = parts_->dispatcher->leave_stalled(request_, net::now())) attempt(*next);
}

void ProxiedRequest::on_worker_lost(WorkerId worker) {
  if (worker != worker_ || phase_ == Phase::kOver) return;
  call_.reset();
  on_error({ErrorCode::kUnavailable, "the worker stands still and answers no health check"});
}

void ProxiedRequest::fail_with(const Error& error, Outcome outcome) {
  job_.exchange->respond(error_answer(error, job_.request_id));
  over(outcome);
}

void ProxiedRequest::break_stream(const Error& error) {
  std::string frame;
  if (is_event_stream(headers_)) {
    relay_.release(frame);
    net::append_sse_data(frame, openai::error_body(error));
  }
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
  on_over_(*this, outcome);
}

}  // namespace kvist::gateway

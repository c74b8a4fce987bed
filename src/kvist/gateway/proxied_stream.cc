// ProxiedRequest: how a stream's events reach the client.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

#include "kvist/gateway/proxied_request.h"
#include "kvist/gateway/proxy_headers.h"
#include "kvist/net/event_loop.h"
#include "kvist/openai/errors.h"
#include "kvist/telemetry/log.h"

namespace kvist::gateway {
namespace {

/// Reading from the worker is paused while more than the first bound is unsent to the client, and resumed below the
/// second.
constexpr std::size_t kPauseAboveBytes = 256U << 10;
constexpr std::size_t kResumeBelowBytes = 64U << 10;

bool ends_an_event(std::string_view bytes) {
  return bytes.empty() || bytes.ends_with("\n\n") || bytes.ends_with("\n\r\n") || bytes.ends_with("\r\r");
}

}  // namespace

void ProxiedRequest::pass_on_bytes(std::string_view data) {
  constexpr std::size_t kTail = 3;
  tail_ += data.substr(data.size() - std::min(data.size(), kTail));
  if (tail_.size() > kTail) tail_.erase(0, tail_.size() - kTail);
  send_events(data);
}

void ProxiedRequest::relay(std::string_view data, TimePoint at) {
  events_.clear();
  const StreamState& state = relay_.state();
  if (life_.attempt_begun()) {
    if (const std::string_view token = relay_.take_token(data); !token.empty()) {
      take_note(state.tokens - 1, true, at);
      return send_events(token);
    }
  }
  const bool first_before = state.first_token;
  const bool failed_before = state.server_failed();
  const std::uint64_t tokens_before = state.tokens;
  const std::uint64_t unreadable_before = state.unreadable;
  const auto fed = relay_.feed(data, events_);
  parts_->counters->unreadable_chunks += state.unreadable - unreadable_before;
  if (state.server_failed() && !failed_before) {
    note_error(*state.error);
    if (!on_error_frame()) return;
  }
  if (!life_.attempt_begun() && !state.readable && state.unreadable > unreadable_before) {
    note_garbage("the stream began with what is no chunk of this API");
    return;  // as above
  }
  take_note(tokens_before, first_before, at);
  if (!events_.empty()) send_events(events_);
  if (!fed) on_too_large(fmt::format("the worker's answer has {}", fed.error().message));
}

// Returns whether the events are still to be sent: if not, they were, or wait for the decision about another worker, or
// belong to an attempt that is over.
bool ProxiedRequest::on_error_frame() {
  constexpr int kShuttingDown = 503;
  const StreamState& state = relay_.state();
  const bool begun = life_.attempt_begun();
  if (begun && !events_.empty()) send_events(std::exchange(events_, {}));
  update_resumable();
  const dispatch::LifeActions actions = life_.on_error_frame(*state.error, state.error_status == kShuttingDown);
  if (!actions.asks()) relay_.release_error(events_);
  if (begun && !actions.asks()) note_broken();
  act(actions);
  return begun && !actions.asks();
}

void ProxiedRequest::note_garbage(const std::string& problem) {
  telemetry::log_warning("proxy", fmt::format("request {} at {}: {}", job_.request_id, worker().name, problem));
  act(life_.on_garbage(problem));
}

// When an engine dies, its server ends the streams in order: with an error frame and [DONE].
void ProxiedRequest::note_error(const std::string& problem) {
  telemetry::log_warning("proxy", fmt::format("request {} at {}: {}", job_.request_id, worker().name, problem));
  ++parts_->counters->error_frames;
}

void ProxiedRequest::take_note(std::uint64_t tokens_before, bool first_before, TimePoint at) {
  if (job_.kind != RequestKind::kRead || !life_.counts()) return;
  const StreamState& state = relay_.state();
  if (state.first_token && !first_before) {
    if (!std::exchange(first_token_seen_, true)) {
      time_token(true, at);
      if (job_.record) job_.record->first_token = at;
      if (job_.report) job_.report->first_token = at;
    }
    parts_->channel->on_first_token(life_.decision().request, at);
  }
  if (state.tokens == tokens_before) return;
  time_token(false, at);
  if (job_.record) job_.record->last_token = at;
  parts_->channel->on_progress(life_.decision().request, state.tokens - tokens_before, at);
}

void ProxiedRequest::send_events(std::string_view events) {
  net::HttpExchange& exchange = *job_.exchange;
  if (life_.begun() && !life_.attempt_begun()) {
    life_.on_begun();
    note_moved();
  } else if (!life_.begun()) {
    life_.on_begun();
    if (!resumable_.keeps_request()) to_send_.reset();
    client_status_ = status_;
    begin_client_stream(status_, std::move(headers_));
  }
  job_.kept.note_written(read_at_);
  exchange.write(events);
  if (exchange.unsent_bytes() > kPauseAboveBytes) read_on(false);
}

void ProxiedRequest::begin_client_stream(int status, net::Headers headers) {
  if (!job_.kept.begin()) return;
  job_.exchange->begin_stream(status, std::move(headers));
  read_on_when_drained();
}

void ProxiedRequest::read_on_when_drained() {
  job_.exchange->on_drained(kResumeBelowBytes, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->read_on(true);
  });
}

void ProxiedRequest::keep_alive(TimePoint now, Duration interval) {
  if (job_.kind != RequestKind::kRead || !job_.streams || life_.is_over()) return;
  if (!job_.kept.is_due(*job_.exchange, job_.arrived, now, interval)) return;
  if (life_.begun() && form_ != Form::kEvents) return;
  ++parts_->counters->keepalives;
  if (job_.kept.send_comment(*job_.exchange, job_.request_id, now)) on_early_head();
}

void ProxiedRequest::on_early_head() {
  client_status_ = KeptStream::kStatus;
  read_on_when_drained();
}

void ProxiedRequest::respond(net::HttpResponse answer) {
  if (!job_.kept.begun()) return job_.exchange->respond(std::move(answer));
  client_status_ = KeptStream::kStatus;
  if (KeptStream::answer(*job_.exchange, answer)) ++parts_->counters->late_errors;
}

void ProxiedRequest::read_on(bool reads) {
  if (!call_ || paused_ != reads || life_.is_over()) return;
  paused_ = !reads;
  read_at_ = net::now();  // while nothing was read, nothing could come
  parts_->channel->on_reading(request_, reads);
  if (reads && asking_) return;  // until it is known whether the answer goes on here
  if (reads) return call_->resume();
  ++parts_->counters->pauses;
  call_->pause();
}

void ProxiedRequest::end_stream() {
  if (form_ == Form::kEvents) {
    const StreamState& state = relay_.state();
    if (!state.has_end() || relay_.is_within_group()) {
      ++parts_->counters->unended_streams;
      return on_error({ErrorCode::kCorrupt, "the stream ended without finish_reason, usage or [DONE]"});
    }
    events_.clear();
    relay_.release(events_);
    // The stream ended in order, so the bytes after the last event are passed on too.
    events_ += relay_.rest();
    if (state.usage) report_usage(*state.usage);
    if (!state.fingerprint.empty()) parts_->fingerprints[life_.decision().worker.value()] = state.fingerprint;
    send_events(events_);
  } else {
    send_events("");
  }
  job_.exchange->end_stream();
  // An error that is the request's own, or its client's who did not read, is none of the worker's.
  act(life_.on_ended(relay_.state().server_failed()));
}

void ProxiedRequest::break_stream(const Error& error) {
  std::string frame;
  if (is_events_) {
    relay_.release(frame);
    // Behind half an event, the error would be a part of it.
    if (!ends_an_event(tail_)) frame += "\n\n";
    net::append_sse_data(frame, openai::error_body(error));
  }
  const std::shared_ptr<net::HttpExchange> exchange = job_.exchange;
  exchange->write(frame);
  if (exchange->unsent_bytes() == 0) {
    exchange->abort();
  } else {
    // The error frame may have to wait until the client has read what precedes it. The server bounds that time.
    exchange->on_drained(0, [exchange] { exchange->abort(); });
  }
}

void ProxiedRequest::note_moved() {
  ProxyCounters& counters = *parts_->counters;
  ++counters.moved_streams;
  counters.moved_tokens += resumed_tokens_;
  counters.move_gap.observe(net::now() - lost_at_);
  resumable_.on_moved();
  telemetry::log_info("proxy", fmt::format("request {} goes on at {} behind {} tokens", job_.request_id, worker().name,
                                           resumed_tokens_));
}

void ProxiedRequest::note_broken() {
  if (job_.kind != RequestKind::kRead || !job_.streams) return;
  const MigrationRefusal refusal = resumable_.refusal().value_or(MigrationRefusal::kNoWorker);
  ++parts_->counters->unmoved_streams[static_cast<std::size_t>(refusal)];
}

}  // namespace kvist::gateway

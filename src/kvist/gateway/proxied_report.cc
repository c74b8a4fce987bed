// ProxiedRequest: its reports to histograms, access log and traces.
#include <algorithm>
#include <utility>

#include "kvist/gateway/proxied_request.h"
#include "kvist/net/event_loop.h"

namespace kvist::gateway {

void ProxiedRequest::report_attempt(const routing::Decision& decision) {
  RequestReport& report = *job_.report;
  const TimePoint now = net::now();
  if (!report.attempts.empty() && report.attempts.back().ended == TimePoint{}) report.attempts.back().ended = now;
  report.attempts.push_back({.worker = worker().name, .began = now});
  if (report.trace) report.attempts.back().span = parts_->reporter->new_span();
  if (job_.kind == RequestKind::kRead) report.predicted_cached_tokens = decision.predicted_cached_tokens;
}

void ProxiedRequest::report_failure(const dispatch::LifeActions& actions) {
  if (job_.report->attempts.empty() || actions.report == dispatch::LifeReport::kNothing) return;
  AttemptReport& attempt = job_.report->attempts.back();
  const bool removed = actions.failure == dispatch::AttemptFailure::kRemoved;
  attempt.failure = actions.asks() || removed                               ? to_string(actions.failure)
                    : actions.report == dispatch::LifeReport::kStreamBroken ? "broken_stream"
                                                                            : "error_frame";
  attempt.ended = net::now();
}

void ProxiedRequest::report_stays() {
  AttemptReport& attempt = job_.report->attempts.back();
  attempt.failure = {};
  attempt.ended = {};
}

std::shared_ptr<const net::HttpRequest> ProxiedRequest::traced(std::shared_ptr<const net::HttpRequest> request) const {
  const RequestReport& report = *job_.report;
  if (!report.trace) return request;
  auto own = std::make_shared<net::HttpRequest>(*request);
  const telemetry::TraceContext context{
      .trace = report.trace->trace, .span = report.attempts.back().span, .sampled = true};
  own->headers.set(telemetry::kTraceParentHeader, telemetry::to_trace_parent(context));
  return own;
}

void ProxiedRequest::time_token(bool is_first, TimePoint at) {
  if (times_ == nullptr) return;
  if (!is_first) {
    // The tokens of several answers come in turns.
    if (last_token_ != TimePoint{} && job_.choices == 1) times_->inter_token.observe(at - last_token_);
    last_token_ = at;
    return;
  }
  times_->first_token.observe(at - job_.arrived);
  const routing::Decision& decision = life_.decision();
  const Duration unwaited = from_milliseconds(decision.forecast_ttft_ms - decision.forecast_wait_ms);
  times_->observed_wait.observe(std::max(at - decision.at - unwaited, Duration(0)));
}

void ProxiedRequest::report_end(dispatch::Outcome outcome) {
  const TimePoint now = net::now();
  if (times_ != nullptr && outcome == dispatch::Outcome::kCompleted) times_->end_to_end.observe(now - job_.arrived);
  if (!job_.report) return;
  RequestReport& report = *job_.report;
  report.ended = now;
  report.status = job_.exchange->client_status().value_or(client_status_);
  report.outcome = to_string(outcome);
  if (!report.output_tokens && relay_.state().tokens > 0)
    report.output_tokens = resumed_tokens_ + relay_.state().tokens;
  if (!report.attempts.empty() && report.attempts.back().ended == TimePoint{}) report.attempts.back().ended = now;
  parts_->reporter->end(std::move(job_.report));
}

}  // namespace kvist::gateway

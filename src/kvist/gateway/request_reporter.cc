#include "kvist/gateway/request_reporter.h"

#include <algorithm>
#include <utility>

#include "kvist/base/random.h"
#include "kvist/dispatch/outcome.h"

namespace kvist::gateway {

Result<std::unique_ptr<RequestReporter>> RequestReporter::open(const spec::GatewaySpec& gateway, std::uint64_t seed) {
  if (gateway.access_log.file.empty() && gateway.otlp.endpoint.empty()) return nullptr;
  std::unique_ptr<RequestReporter> reporter(new RequestReporter(gateway, seed));
  if (!gateway.access_log.file.empty()) {
    KVIST_TRY(reporter->access_log_, AccessLog::open(gateway.access_log, gateway.log.format));
  }
  if (!gateway.otlp.endpoint.empty()) {
    KVIST_TRY(reporter->spans_, SpanExporter::open(gateway.otlp, telemetry::SpanId{reporter->draw()}.hex()));
  }
  return reporter;
}

std::uint64_t RequestReporter::draw() {
  return std::max<std::uint64_t>(mix_seed({seed_, drawn_.fetch_add(1, std::memory_order_relaxed)}), 1);
}

namespace {

/// The most bytes of a request's path, so that waiting reports are bounded in bytes too.
constexpr std::size_t kMostPath = 512;

std::string path_of(const net::HttpRequest& request) {
  const std::string_view came_to = request.came_to.empty() ? std::string_view(request.target) : request.came_to;
  return std::string(came_to.substr(0, std::min(came_to.find('?'), kMostPath)));
}

}  // namespace

telemetry::SpanId RequestReporter::new_span() {
  return {draw()};
}

std::unique_ptr<RequestReport> RequestReporter::begin(const net::HttpRequest& request, TimePoint now) {
  auto report = std::make_unique<RequestReport>(
      RequestReport{.method = request.method, .path = path_of(request), .arrived = now});
  if (spans_) trace(request, *report);
  return access_log_ || report->trace ? std::move(report) : nullptr;
}

void RequestReporter::trace(const net::HttpRequest& request, RequestReport& report) {
  const auto field = request.headers.find(telemetry::kTraceParentHeader);
  const auto given = field ? telemetry::parse_trace_parent(*field) : std::nullopt;
  if (given) {
    if (!given->sampled) return;
    report.trace = telemetry::TraceContext{.trace = given->trace, .span = new_span(), .sampled = true};
    report.parent = given->span;
  } else {
    constexpr double kTwoTo64 = 18446744073709551616.0;
    const telemetry::TraceId id{.high = draw(), .low = draw()};
    if (static_cast<double>(id.low) >= spec_.sample_ratio * kTwoTo64) return;
    report.trace = telemetry::TraceContext{.trace = id, .span = new_span(), .sampled = true};
  }
  report.routing = new_span();
}

void RequestReporter::refused(const net::HttpRequest& request, std::string_view id, int status, std::string_view key,
                              TimePoint now) {
  if (!access_log_) return;
  access_log_->add(
      std::make_shared<const RequestReport>(RequestReport{.request_id = std::string(id),
                                                          .method = request.method,
                                                          .path = path_of(request),
                                                          .key = std::string(key),
                                                          .arrived = now,
                                                          .ended = now,
                                                          .status = status,
                                                          .outcome = to_string(dispatch::Outcome::kRejected)}));
}

void RequestReporter::end(std::unique_ptr<RequestReport> report) {
  const std::shared_ptr<const RequestReport> ended = std::move(report);
  if (access_log_) access_log_->add(ended);
  if (spans_ && ended->trace) spans_->add(ended);
}

}  // namespace kvist::gateway

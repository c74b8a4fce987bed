// Who is told of requests: the access log and the collector of traces.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>

#include "kvist/base/error.h"
#include "kvist/gateway/access_log.h"
#include "kvist/gateway/request_report.h"
#include "kvist/gateway/span_exporter.h"
#include "kvist/net/http_types.h"
#include "kvist/spec/deployment.h"

namespace kvist::gateway {

/// Begins and takes the reports of requests. Threads: any; one object for all loops.
class RequestReporter {
 public:
  /// Returns null if the settings ask for neither. `seed` makes ids that no other process has. Errors: the access log
  /// cannot be written.
  [[nodiscard]] static Result<std::unique_ptr<RequestReporter>> open(const spec::GatewaySpec& gateway,
                                                                     std::uint64_t seed);

  /// The report of a request that arrives, with its trace: the client's, or a new one; none if it is not to be traced.
  /// Returns null if nobody wants one.
  [[nodiscard]] std::unique_ptr<RequestReport> begin(const net::HttpRequest& request, TimePoint now);
  /// An id for one more span of a traced request.
  [[nodiscard]] telemetry::SpanId new_span();
  void end(std::unique_ptr<RequestReport> report);
  /// A request that got no further: it has no good key, its key's limits are reached, or nothing serves its model.
  /// `key`: the name of its key; empty: it has none that is known.
  void refused(const net::HttpRequest& request, std::string_view id, int status, std::string_view key, TimePoint now);

  [[nodiscard]] const AccessLog* access_log() const { return access_log_.get(); }
  [[nodiscard]] const SpanExporter* spans() const { return spans_.get(); }

 private:
  RequestReporter(const spec::GatewaySpec& gateway, std::uint64_t seed) : spec_(gateway.otlp), seed_(seed) {}
  [[nodiscard]] std::uint64_t draw();
  void trace(const net::HttpRequest& request, RequestReport& report);

  const spec::OtlpSpec spec_;
  const std::uint64_t seed_;
  std::atomic<std::uint64_t> drawn_ = 0;
  std::unique_ptr<AccessLog> access_log_;  // null: no one asked for it, as the next
  std::unique_ptr<SpanExporter> spans_;
};

}  // namespace kvist::gateway

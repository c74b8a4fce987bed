#include "kvist/epp/service.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "kvist/epp/grpc_server.h"
#include "kvist/epp/picked_request.h"
#include "kvist/gateway/worker_endpoint.h"
#include "kvist/telemetry/log.h"

namespace kvist::epp {
namespace {

/// How many further workers are named for the case that the first cannot be reached.
constexpr std::size_t kFallbacks = 2;
/// What a message has besides the body: headers and metadata.
constexpr std::size_t kMessageOverheadBytes = 1U << 20;
/// What streams that are not over have when everything else is.
constexpr Duration kLastPatience = std::chrono::milliseconds(200);

// The services of the endpoint picker protocol's health checks; the empty name is the server as a whole.
constexpr std::string_view kLiveness = "liveness";
constexpr std::array<std::string_view, 3> kReadiness = {"", "readiness", "envoy.service.ext_proc.v3.ExternalProcessor"};

Result<void> check_endpoints(const spec::GatewaySpec& spec) {
  for (const spec::ServedModelSpec& model : spec::served_models(spec)) {
    for (const spec::UpstreamSpec& worker : model.workers) {
      const auto endpoint = gateway::worker_endpoint(worker.url);
      if (!endpoint) return std::unexpected(Error(endpoint.error()).in(fmt::format("worker {}", worker.name)));
    }
  }
  return {};
}

std::size_t most_streams(const spec::GatewaySpec& spec) {
  constexpr std::size_t kMore = 1'024;  // that are being refused, or are health checks
  std::size_t streams = kMore;
  for (const spec::ServedModelSpec& model : spec::served_models(spec)) streams += model.max_in_flight;
  return streams;
}

/// What the gateway's front would do for a proxy's clients is the proxy's own business here.
spec::GatewaySpec behind_a_proxy(spec::GatewaySpec spec) {
  const auto adapt = [](spec::ServedModelSpec& model) {
    model.stream_keepalive = Duration(0);
    model.migration.enabled = false;
  };
  adapt(spec);
  std::ranges::for_each(spec.models, adapt);
  return spec;
}

class PickerService final : public Service {
 public:
  PickerService(net::EventLoop& loop, const spec::GatewaySpec& spec) {
    shared_.loop = &loop;
    shared_.max_body_bytes = spec.max_body_bytes;
    shared_.request_timeout = spec.http_limits.body_timeout;
    shared_.fallbacks = kFallbacks;
    shared_.handle = [this](net::HttpRequest request, const std::shared_ptr<net::HttpExchange>& exchange,
                            const std::shared_ptr<gateway::Carrier>& carrier) {
      gateway_->handle(std::move(request), exchange, carrier);
    };
  }
  // The streams' last words go to the gateway's requests, and those to the streams.
  ~PickerService() override {
    if (server_) server_->close(Duration(0));
  }
  PickerService(const PickerService&) = delete;
  PickerService& operator=(const PickerService&) = delete;

  [[nodiscard]] Result<void> start(const spec::GatewaySpec& spec, gateway::SettingsFile file) {
    KVIST_TRY(gateway_, gateway::Service::create(*shared_.loop, behind_a_proxy(spec), std::move(file),
                                                 gateway::Front::kCarriers));
    gateway_->add_metrics([this](telemetry::MetricsPage& page) { write_metrics(page); });
    KVIST_TRY(server_, GrpcServer::listen(
                           *shared_.loop,
                           {.host = spec.http.host,
                            .port = spec.http.port,
                            .tls = spec.tls,
                            .max_message_bytes = spec.max_body_bytes + kMessageOverheadBytes,
                            .max_streams = most_streams(spec)},
                           {.open = [this](std::shared_ptr<MessageSink> sink) -> std::shared_ptr<MessageReceiver> {
                              return std::make_shared<PickedRequest>(shared_, std::move(sink));
                            },
                            .is_serving = [this](std::string_view service) { return is_serving(service); }}));
    telemetry::log_info("epp", fmt::format("ext_proc on {}:{}{}", spec.http.host, server_->port(),
                                           spec.tls.certificate.empty() ? "" : " with TLS"));
    return {};
  }

  [[nodiscard]] std::uint16_t port() const override { return server_->port(); }
  [[nodiscard]] std::uint16_t admin_port() const override { return gateway_->admin_port(); }
  void reload() override { gateway_->reload(); }
  void shut_down(std::function<void()> done) override {
    gateway_->shut_down([this, done = std::move(done)] {
      server_->close(kLastPatience);
      if (done) done();
    });
  }
  void end_now() override { gateway_->end_now(); }

 private:
  [[nodiscard]] std::optional<bool> is_serving(std::string_view service) const {
    if (service == kLiveness) return true;
    if (std::ranges::find(kReadiness, service) != kReadiness.end()) return gateway_->is_ready();
    return std::nullopt;
  }

  void write_metrics(telemetry::MetricsPage& page) const {
    const PickerCounters& counters = shared_.counters;
    page.gauge("kvist_epp_streams", "ext_proc streams that are open", static_cast<double>(counters.open));
    page.counter("kvist_epp_streams_total", "ext_proc streams that were begun", static_cast<double>(counters.streams));
    const auto ended = [&](const char* how, std::uint64_t count) {
      page.counter("kvist_epp_requests_total", "what came of ext_proc streams; one may count in several ways",
                   static_cast<double>(count), {{"event", how}});
    };
    ended("picked", counters.picked);
    ended("refused", counters.refused);
    ended("malformed", counters.malformed);
    ended("broken_off", counters.broken_off);
    ended("unended", counters.unended);
    ended("moved", counters.moved);
    ended("turned_away", server_ ? server_->turned_away() : 0);
  }

  PickedRequest::Shared shared_;
  std::unique_ptr<gateway::Service> gateway_;
  std::unique_ptr<GrpcServer> server_;
};

}  // namespace

Result<std::unique_ptr<Service>> Service::create(net::EventLoop& loop, const spec::GatewaySpec& spec,
                                                 gateway::SettingsFile file) {
  KVIST_TRY_VOID(check_endpoints(spec));
  auto service = std::make_unique<PickerService>(loop, spec);
  KVIST_TRY_VOID(service->start(spec, std::move(file)));
  return std::unique_ptr<Service>(std::move(service));
}

}  // namespace kvist::epp

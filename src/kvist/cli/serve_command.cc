// kvist worker, kvist gateway: one part of a deployment as a process.
#include <fmt/format.h>

#include "kvist/cli/commands.h"
#include "kvist/cli/print.h"
#include "kvist/gateway/service.h"
#include "kvist/net/event_loop.h"
#include "kvist/spec/files.h"
#include "kvist/telemetry/log.h"
#include "kvist/worker/service.h"

namespace kvist::cli {
namespace {

/// Time for the last error frames to leave before the sockets close.
constexpr Duration kFarewell = std::chrono::milliseconds(100);
/// The gateway's own drain is bounded below this; a fault there must not keep the process alive.
constexpr Duration kLongestShutdown = std::chrono::seconds(8);

void stop_after(net::EventLoop& loop, net::Timer& timer, Duration pause) {
  timer.arm(net::now() + pause, [&loop] { loop.stop(); });
}

}  // namespace

Result<void> serve_worker(const std::string& file) {
  KVIST_TRY(const spec::WorkerSpec spec, spec::load_worker(file));
  telemetry::start_logging(telemetry::LogLevel::kInfo, spec.name);
  net::EventLoop loop;
  net::Timer end(loop);
  KVIST_TRY(const auto service, worker::Service::create(loop, spec));
  loop.on_termination([&] {
    service->shut_down();
    stop_after(loop, end, kFarewell);
  });
  print_line(fmt::format("ready http={} kv_events={} kv_replay={}", service->port(), service->kv_events_port(),
                         service->kv_replay_port()));
  loop.run();
  return {};
}

Result<void> serve_gateway(const std::string& file) {
  KVIST_TRY(const spec::GatewaySpec spec, spec::load_gateway(file));
  telemetry::start_logging(telemetry::LogLevel::kInfo, "gateway");
  net::EventLoop loop;
  net::Timer end(loop);
  KVIST_TRY(const auto service, gateway::Service::create(loop, spec));
  loop.on_termination([&] {
    stop_after(loop, end, kLongestShutdown);
    service->shut_down([&] { stop_after(loop, end, kFarewell); });
  });
  print_line(fmt::format("ready http={}", service->port()));
  loop.run();
  return {};
}

}  // namespace kvist::cli

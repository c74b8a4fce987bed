// The load generator as a service: drives a workload at a target over HTTP, exports its metrics, obeys a control API.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/time.h"
#include "kvist/net/event_loop.h"
#include "kvist/spec/deployment.h"
#include "kvist/spec/workload.h"
#include "kvist/workload/load_input.h"
#include "kvist/workload/snapshot.h"
#include "kvist/workload/turn_sample.h"

namespace kvist::loadgen {

struct ServiceOptions {
  std::string target_url;  ///< http://host:port of an OpenAI-compatible server
  std::string model;
  spec::Endpoint http;  ///< metrics and control API
  spec::WorkloadSpec workload;
  workload::LoadInput input = {};              ///< where the workload replays a trace
  Duration window = std::chrono::seconds(60);  ///< of the Summary and the rates
};

/// How the client itself did since the last start() or raise().
struct ClientLoad {
  double loop_delay_p99_ms = 0;
  double loop_delay_max_ms = 0;
  double cpu_seconds = 0;                          ///< of this process since then
  std::optional<std::string> refused_starts = {};  ///< how many open arrivals found no room, in words
};

/// Lives on one loop; every method is called on the loop's thread.
/// Control API: GET /status, POST /start {"concurrency":N,"seed":S}, POST /stop {"drain":true|false}; GET /metrics with
/// loadgen_ttft_all_seconds (Summary), loadgen_requests_total{outcome}, and more.
class Service {
 public:
  [[nodiscard]] static Result<std::unique_ptr<Service>> create(net::EventLoop& loop, ServiceOptions options);
  virtual ~Service() = default;

  [[nodiscard]] virtual std::uint16_t port() const = 0;
  /// Begins to drive `concurrency` conversations at once; with open arrivals, so many starts per minute.
  /// kInvalidArgument while already running.
  [[nodiscard]] virtual Result<void> start(std::uint32_t concurrency, std::uint64_t seed) = 0;
  /// More conversations at once, beside those that are running; client_load() counts from now. kInvalidArgument while
  /// not running or where it would be fewer, kUnsupported where no such number drives the load.
  [[nodiscard]] virtual Result<void> raise(std::uint32_t concurrency) = 0;
  /// No new turn from now on. With `drain`, turns in flight may end; without, they are cancelled (kAbandoned).
  /// `stopped` is called when nothing is in flight any more.
  virtual void stop(bool drain, std::function<void()> stopped) = 0;
  [[nodiscard]] virtual std::uint32_t in_flight() const = 0;
  /// The published method's reading now.
  [[nodiscard]] virtual workload::Snapshot snapshot() = 0;
  [[nodiscard]] virtual ClientLoad client_load() const = 0;
  /// All samples since start(); the service keeps none of them.
  [[nodiscard]] virtual std::vector<workload::TurnSample> take_samples() = 0;
};

}  // namespace kvist::loadgen

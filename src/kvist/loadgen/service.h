// The load generator as a service: drives a workload over HTTP, exports its metrics and has a control API.
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
#include "kvist/net/http_client.h"
#include "kvist/net/http_types.h"
#include "kvist/spec/deployment.h"
#include "kvist/spec/workload.h"
#include "kvist/workload/load_input.h"
#include "kvist/workload/prompt_ids.h"
#include "kvist/workload/recorder.h"
#include "kvist/workload/snapshot.h"
#include "kvist/workload/turn_sample.h"
#include "kvist/workload/turn_source.h"

namespace kvist::loadgen {

struct ServiceOptions {
  std::string target_url;           ///< http://host:port or https://host:port of an OpenAI-compatible server
  net::ServerSettings target = {};  ///< its key and certificate
  std::string model;
  spec::Endpoint http;  ///< metrics and control API
  spec::WorkloadSpec workload;
  workload::LoadInput input = {};                      ///< set if the workload replays a trace
  Duration window = std::chrono::seconds(60);          ///< the window of the Summary and the rates
  std::string path = "/v1/chat/completions";           ///< to which requests go
  net::Headers headers = {};                           ///< sent with every request, in addition to the service's own
  std::optional<workload::PromptIds> prompt_ids = {};  ///< prompts are sent as token ids; `path` has to take them
  std::optional<std::uint64_t> max_turns = {};         ///< the load ends after so many
};

/// The load of the client itself since the last start() or raise().
struct ClientLoad {
  double loop_delay_p99_ms = 0;
  double loop_delay_max_ms = 0;
  std::uint64_t loop_stalls = 0;                 ///< ticks that were late by a whole period (10 ms) or more
  double loop_stalled_ms = 0;                    ///< the sum of them
  double cpu_seconds = 0;                        ///< of this process since then
  std::optional<double> run_queue_seconds = {};  ///< the loop's thread waited for a processor; nothing: not known here
  std::optional<double> steal_share = {};        ///< of all processors' time; nothing: not known here
  std::optional<std::string> refused_starts = {};  ///< a remark on the number of refused open arrivals
};

/// Changes that one load may see.
inline constexpr std::size_t kMostChanges = 10'000;

/// Threads: the loop's. Control API: GET /status, POST /start {"concurrency":N,"seed":S}, PATCH /load
/// {"concurrency":N} or {"rate":R}, POST /stop {"drain":true|false}; GET /metrics with loadgen_ttft_all_seconds
/// (Summary), loadgen_requests_total{outcome}, and more.
class Service {
 public:
  [[nodiscard]] static Result<std::unique_ptr<Service>> create(net::EventLoop& loop, ServiceOptions options);
  virtual ~Service() = default;

  [[nodiscard]] virtual std::uint16_t port() const = 0;
  /// Begins to drive `concurrency` conversations at once or, with open arrivals, so many starts per minute. Errors:
  /// kInvalidArgument while running.
  [[nodiscard]] virtual Result<void> start(std::uint32_t concurrency, std::uint64_t seed) = 0;
  /// Raises the number of conversations at once. client_load() counts from now. Errors: kInvalidArgument while not
  /// running, or for a smaller number; kUnsupported if the load does not depend on such a number.
  [[nodiscard]] virtual Result<void> raise(std::uint32_t concurrency) = 0;
  /// Changes the load that is under way, exactly from now on. Errors: kInvalidArgument while not running, or for more
  /// than kMostChanges; those of workload::TurnSource::change().
  [[nodiscard]] virtual Result<void> change(const workload::LoadChange& change) = 0;
  /// The changes since start(), in their order.
  [[nodiscard]] virtual const std::vector<workload::AppliedChange>& changes() const = 0;
  /// Starts no further turns. With `drain`, turns in flight may end; without, they are cancelled (kAbandoned). Calls
  /// `stopped` when nothing is in flight any more.
  virtual void stop(bool drain, std::function<void()> stopped) = 0;
  /// Sets what is called from the loop when a load has ended by itself: `max_turns` were driven, or the source (a
  /// trace, a profile of arrivals) has nothing more to do, and nothing is in flight.
  virtual void on_ended(std::function<void()> ended) = 0;
  /// Whether the load has sent its last turn by itself, so that only answers are awaited; true when idle.
  [[nodiscard]] virtual bool is_exhausted() const = 0;
  [[nodiscard]] virtual std::uint32_t in_flight() const = 0;
  /// Windows and totals of the load.
  [[nodiscard]] virtual const workload::Recorder& recorder() const = 0;
  /// The figures of the published method now.
  [[nodiscard]] virtual workload::Snapshot snapshot() = 0;
  [[nodiscard]] virtual ClientLoad client_load() const = 0;
  /// Open arrivals of the last load that waited for a place, as of its stop.
  [[nodiscard]] virtual workload::HeldBack held_back() const = 0;
  /// Returns all samples since start() and keeps none.
  [[nodiscard]] virtual std::vector<workload::TurnSample> take_samples() = 0;
};

}  // namespace kvist::loadgen

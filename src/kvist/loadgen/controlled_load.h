// A load that can be looked at and changed while it runs: by its control API, and by a dashboard.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "kvist/base/error.h"
#include "kvist/base/time.h"
#include "kvist/loadgen/control_api.h"
#include "kvist/loadgen/load.h"
#include "kvist/net/http_server.h"
#include "kvist/net/http_types.h"
#include "kvist/spec/workload.h"
#include "kvist/workload/load_feed.h"
#include "kvist/workload/recorder.h"
#include "kvist/workload/turn_source.h"

namespace kvist::loadgen {

/// What a load is doing.
struct LoadView {
  std::string_view state;                         ///< "idle", "running", "draining"
  bool open = false;                              ///< arrivals do not wait for answers
  bool replays = false;                           ///< a trace: nothing of it can be changed
  std::optional<std::uint32_t> concurrency = {};  ///< nothing: idle, or the load does not depend on it
  std::optional<double> rate_per_s = {};  ///< of starts, of a closed loop at most; nothing: no limit, or a trace
  std::uint64_t seed = 0;
  std::optional<TimePoint> started = {};  ///< nothing when idle
  std::uint32_t in_flight = 0;
  workload::RecorderTotals totals = {};
};

/// Threads: the loop's.
class ControlledLoad : public Load {
 public:
  /// A request to the control API.
  virtual void handle(net::HttpRequest request, const std::shared_ptr<net::HttpExchange>& exchange) = 0;
  [[nodiscard]] virtual LoadView view() const = 0;
  /// Load::start() with settings that hold from the first turn on. Errors: also those of change().
  [[nodiscard]] virtual Result<void> start_with(std::uint32_t concurrency, std::uint64_t seed,
                                                const workload::LoadChange& settings) = 0;
  /// What happened since the last call, if the load has a feed.
  [[nodiscard]] virtual workload::LoadBatch take_batch() = 0;
  /// Changes the load that is under way, from now or a moment later on. Errors: kInvalidArgument while not running, or
  /// for more than kMostChanges; those of workload::TurnSource::change().
  [[nodiscard]] virtual Result<void> change(const workload::LoadChange& change) = 0;
};

/// What POST /start does: of open arrivals the number is that of starts per minute, whatever rate the workload has.
[[nodiscard]] Result<void> start_as(const StartCommand& command, const spec::WorkloadSpec& workload,
                                    ControlledLoad& load);

}  // namespace kvist::loadgen

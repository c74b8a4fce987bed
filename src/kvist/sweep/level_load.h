// The load of levels, as who measures them has it: driven by this process, or by agents.
#pragma once

#include <cstdint>
#include <future>
#include <optional>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/time.h"
#include "kvist/loadgen/load.h"
#include "kvist/results/records.h"
#include "kvist/workload/snapshot.h"
#include "kvist/workload/turn_sample.h"

namespace kvist::sweep {

/// Threads: one, which drives no load. Calls wait for the load's own threads.
class LevelLoad {
 public:
  virtual ~LevelLoad() = default;

  /// Returns when the schedule begins, if that is later than the call.
  [[nodiscard]] virtual Result<std::optional<TimePoint>> start(std::uint32_t concurrency, std::uint64_t seed) = 0;
  /// See loadgen::Service::raise().
  [[nodiscard]] virtual Result<void> raise(std::uint32_t concurrency) = 0;
  /// The future is ready when nothing is in flight any more.
  [[nodiscard]] virtual std::future<void> stop(bool drain) = 0;
  [[nodiscard]] virtual Result<std::uint32_t> in_flight() = 0;
  /// The figures of the published method, as far as they are known now.
  [[nodiscard]] virtual Result<workload::Snapshot> snapshot() = 0;
  [[nodiscard]] virtual Result<loadgen::ClientLoad> client_load() = 0;
  [[nodiscard]] virtual Result<std::vector<workload::TurnSample>> take_samples() = 0;
  /// Returns an error if a part of the load was lost, or given up (loadgen::Load::given_up()): the level is not the one
  /// that was ordered.
  [[nodiscard]] virtual Result<void> check_alive() = 0;
  /// Adds what only the load knows to the record of a level that has its turns, its window and its client.
  [[nodiscard]] virtual Result<void> complete(results::LevelRecord& record) = 0;
};

}  // namespace kvist::sweep

// The load generator in this process, on a thread of its own.
#pragma once

#include <memory>

#include "kvist/base/error.h"
#include "kvist/loadgen/load_watch.h"
#include "kvist/loadgen/service.h"
#include "kvist/sweep/level_load.h"
#include "kvist/sweep/loop_thread.h"

namespace kvist::sweep {

/// Owns the loop, its thread and the service on it.
class LoadGenerator final : public LevelLoad {
 public:
  /// `watch` is attached to the service; null: nobody looks at the load.
  [[nodiscard]] static Result<std::unique_ptr<LoadGenerator>> create(
      loadgen::ServiceOptions options, std::shared_ptr<loadgen::LoadWatch> watch = nullptr);
  /// Breaks off turns in flight.
  ~LoadGenerator() override;
  LoadGenerator(const LoadGenerator&) = delete;
  LoadGenerator& operator=(const LoadGenerator&) = delete;

  [[nodiscard]] Result<std::optional<TimePoint>> start(std::uint32_t concurrency, std::uint64_t seed) override;
  [[nodiscard]] Result<void> raise(std::uint32_t concurrency) override;
  [[nodiscard]] std::future<void> stop(bool drain) override;
  [[nodiscard]] Result<std::uint32_t> in_flight() override;
  [[nodiscard]] Result<workload::Snapshot> snapshot() override;
  [[nodiscard]] Result<loadgen::ClientLoad> client_load() override;
  [[nodiscard]] Result<std::vector<workload::TurnSample>> take_samples() override;
  [[nodiscard]] Result<void> check_alive() override;
  [[nodiscard]] Result<void> complete(results::LevelRecord& record) override;

 private:
  LoadGenerator() = default;

  std::uint64_t refused_before_ = 0;  // samples of earlier levels that found no room
  std::shared_ptr<loadgen::LoadWatch> watch_;
  std::unique_ptr<loadgen::Service> service_;  // made, used and destroyed on the loop's thread
  LoopThread thread_;
};

}  // namespace kvist::sweep

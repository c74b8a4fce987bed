// The load generator in this process, on a thread of its own.
#pragma once

#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/loadgen/load_watch.h"
#include "kvist/loadgen/service.h"
#include "kvist/net/event_loop.h"

namespace kvist::sweep {

/// Owns the loop, its thread and the service on it. Each method posts to the loop and waits for the answer for at most
/// half a minute, because a loop that is that late has failed. Threads: one, which is not the loop's.
class LoadGenerator {
 public:
  /// `watch` is attached to the service; null: nobody looks at the load.
  [[nodiscard]] static Result<std::unique_ptr<LoadGenerator>> create(
      loadgen::ServiceOptions options, std::shared_ptr<loadgen::LoadWatch> watch = nullptr);
  /// Breaks off turns in flight.
  ~LoadGenerator();
  LoadGenerator(const LoadGenerator&) = delete;
  LoadGenerator& operator=(const LoadGenerator&) = delete;

  [[nodiscard]] Result<void> start(std::uint32_t concurrency, std::uint64_t seed);
  /// See loadgen::Service::raise().
  [[nodiscard]] Result<void> raise(std::uint32_t concurrency);
  /// The future is ready when nothing is in flight any more.
  [[nodiscard]] std::future<void> stop(bool drain);
  [[nodiscard]] Result<std::uint32_t> in_flight();
  [[nodiscard]] Result<workload::Snapshot> snapshot();
  [[nodiscard]] Result<loadgen::ClientLoad> client_load();
  [[nodiscard]] Result<std::vector<workload::TurnSample>> take_samples();

 private:
  LoadGenerator() = default;
  /// Runs `work` on the loop's thread and returns its result.
  template <class Work>
  [[nodiscard]] auto on_loop(Work work) -> Result<decltype(work())>;

  std::shared_ptr<loadgen::LoadWatch> watch_;
  net::EventLoop loop_;
  std::unique_ptr<loadgen::Service> service_;  // made, used and destroyed on the loop's thread
  std::thread thread_;
};

}  // namespace kvist::sweep

// Starts, changes and stops the load that the dashboard shows, which lives on another loop.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "kvist/base/error.h"
#include "kvist/dashboard/board.h"
#include "kvist/dashboard/command.h"
#include "kvist/dashboard/service/dashboard.h"
#include "kvist/loadgen/load_watch.h"
#include "kvist/net/event_loop.h"
#include "kvist/workload/load_feed.h"

namespace kvist::dashboard {

/// Threads: the dashboard's loop, on which `done` is called, too. It has to outlive what it has asked for, or its loop
/// no longer runs.
class LoadControl {
 public:
  using Done = std::function<void(Result<void>)>;

  LoadControl(net::EventLoop& loop, std::shared_ptr<loadgen::LoadWatch> watch, LoadPlan plan);

  /// What the next load begins with, or what the present one has been told.
  [[nodiscard]] const LoadPlan& plan() const { return plan_; }

  void start(const StartLoad& order, Done done);
  void stop(bool drain, Done done);
  void set_concurrency(std::uint32_t concurrency, Done done);
  void set_rate(double rate_per_s, Done done);

  /// Reads state and feed. Does nothing while an answer is awaited, or without a load.
  void poll(std::function<void(LoadState state, workload::LoadBatch batch)> done);

 private:
  using Change = std::function<Result<void>(loadgen::ControlledLoad& load)>;
  /// Runs it on the load's loop, and `done` on this one.
  void run(Change change, Done done);

  net::EventLoop& loop_;
  std::shared_ptr<loadgen::LoadWatch> watch_;
  LoadPlan plan_;
  std::uint64_t loads_;  // of its seed that were begun
  bool polling_ = false;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace kvist::dashboard

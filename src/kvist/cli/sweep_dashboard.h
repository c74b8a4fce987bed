// A running sweep on the dashboard.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "kvist/base/error.h"
#include "kvist/cli/commands.h"
#include "kvist/dashboard/service/dashboard.h"
#include "kvist/spec/sweep.h"
#include "kvist/sweep/sweep_observer.h"
#include "kvist/sweep/sweep_outcome.h"

namespace kvist::cli {

/// Shows what it is told. Threads: that of the sweep.
class SweepDashboard final : public sweep::SweepObserver {
 public:
  [[nodiscard]] static Result<std::unique_ptr<SweepDashboard>> start(const SweepArguments& arguments,
                                                                     const spec::SweepSpec& sweep);

  [[nodiscard]] std::string url() const { return board_->url(); }
  [[nodiscard]] std::shared_ptr<loadgen::LoadWatch> watch() override { return watch_; }
  [[nodiscard]] std::shared_ptr<workload::LoadFeed> feed() override { return std::make_shared<workload::LoadFeed>(); }
  void on_deployment(const deploy::Addresses& addresses) override;
  void on_levels_skipped(std::span<const sweep::PlannedLevel> levels) override;
  void on_level_begun(const sweep::PlannedLevel& level) override;
  void on_level_measured() override;
  void on_level_stored(const results::LevelRecord& record) override;
  /// The sweep has ended, well or not.
  void finish(const sweep::SweepOutcome& outcome);

 private:
  explicit SweepDashboard(const spec::SweepSpec& sweep);
  [[nodiscard]] dashboard::SweepLevel* find(const std::string& mode, std::uint32_t concurrency,
                                            std::uint32_t repetition);

  const spec::MethodSpec method_;
  dashboard::SweepProgress progress_;
  std::shared_ptr<loadgen::LoadWatch> watch_ = std::make_shared<loadgen::LoadWatch>();
  std::unique_ptr<dashboard::Dashboard> board_;
};

}  // namespace kvist::cli

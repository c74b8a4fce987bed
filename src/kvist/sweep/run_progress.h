// Which levels of a plan are still to be measured.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "kvist/analysis/stop_rule.h"
#include "kvist/base/error.h"
#include "kvist/results/store.h"
#include "kvist/spec/sweep.h"
#include "kvist/sweep/folder_lock.h"
#include "kvist/sweep/plan.h"

namespace kvist::sweep {

/// Knows the levels that a run has, those of an interrupted one included, and the rule that ends repetitions. Threads:
/// one.
class RunProgress {
 public:
  explicit RunProgress(const spec::SweepSpec& sweep);

  /// Takes over the finished levels of an interrupted run. If a load that continues through several levels was not
  /// finished, its levels are removed, and it begins again with the lowest one. Errors: levels that are not those of
  /// the plan.
  [[nodiscard]] Result<void> take_over(results::Store& store, std::int64_t run, const std::vector<PlannedMode>& plan);

  /// A level was measured. Its turns are needed if there is a rule.
  void add(std::size_t position, const results::LevelRecord& level);

  /// Whether the load that begins at `position` is still to be measured.
  [[nodiscard]] bool is_open(std::span<const PlannedLevel> load, std::size_t position) const;
  /// Whether the rule has ended the repetitions of every level of a load.
  [[nodiscard]] bool is_settled(std::span<const PlannedLevel> load) const;
  [[nodiscard]] std::size_t done() const { return done_.size(); }
  /// Null without a rule.
  [[nodiscard]] const analysis::StopWatch* watch() const { return watch_ ? &*watch_ : nullptr; }

 private:
  spec::SweepSpec sweep_;
  std::set<std::size_t> done_;
  std::optional<analysis::StopWatch> watch_;
};

/// The database of an interrupted sweep, opened, and its last run.
struct ResumedRun {
  FolderLock lock;
  std::unique_ptr<results::Store> store;
  std::int64_t run = 0;
  results::RunRecord head;
};
/// Opens the sweep in `directory`. Errors: also if its last run is not `simulated` as asked, or was begun by another
/// version of kvist or, if it is measured, on another machine; if another process is at it.
[[nodiscard]] Result<ResumedRun> open_interrupted(const std::string& directory, bool simulated,
                                                  results::Durability durability);
/// The specification with which the sweep in `directory` began.
[[nodiscard]] Result<spec::SweepSpec> interrupted_sweep(const std::string& directory);

}  // namespace kvist::sweep

// When a level has been repeated often enough.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "kvist/analysis/exact_percentiles.h"
#include "kvist/results/records.h"
#include "kvist/spec/arm.h"
#include "kvist/spec/comparison_spec.h"
#include "kvist/spec/sweep.h"

namespace kvist::analysis {

/// The figure of the rule's metric in one measurement; nothing if it is not known, or if the level has too many errors.
[[nodiscard]] std::optional<double> stop_figure(const spec::StopRule& rule, const results::LevelRecord& level,
                                                const spec::MethodSpec& method, Schedule schedule = Schedule::kNone);

/// Watches the intervals of the gains as repetitions come in. Only rounds that every arm has count, and at least five
/// are needed; if a figure is unknown in one of them, its interval is never narrow enough. The rule looks at the
/// interval's width, not at where it lies, so that it favours neither arm; an interval that was stopped at is still a
/// little too narrow, because its width is the smallest so far.
class StopWatch {
 public:
  /// The first arm is the baseline.
  StopWatch(spec::StopRule rule, std::vector<spec::Arm> arms) : rule_(std::move(rule)), arms_(std::move(arms)) {}

  void add(const spec::Arm& arm, std::uint32_t concurrency, std::uint32_t repetition, std::optional<double> figure);
  /// Half of the widest interval among the arms' gains, in the rule's unit; nothing if it is not known.
  [[nodiscard]] std::optional<double> half_width(std::uint32_t concurrency) const;
  [[nodiscard]] bool is_narrow(std::uint32_t concurrency) const;
  /// Rounds that every arm has.
  [[nodiscard]] std::size_t rounds(std::uint32_t concurrency) const;

 private:
  /// By repetition, then by the arm's place; an arm that has not been measured is not there.
  using Rounds = std::map<std::uint32_t, std::map<std::size_t, std::optional<double>>>;

  spec::StopRule rule_;
  std::vector<spec::Arm> arms_;
  std::map<std::uint32_t, Rounds> levels_;
};

}  // namespace kvist::analysis

// What became of a trace that was replayed.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kvist/base/time.h"
#include "kvist/workload/trace.h"
#include "kvist/workload/turn_sample.h"

namespace kvist::workload {

/// Compares the turns of a level with the trace that they come from, for what the level's figures do not show by
/// themselves. Threads: one; the trace is shared and not changed.
class TraceOutcome {
 public:
  /// Null: the load is no trace, and there is nothing to remark.
  explicit TraceOutcome(std::shared_ptr<const Trace> trace) : trace_(std::move(trace)) {}

  void add(const std::vector<TurnSample>& turns);
  /// For the reader of a level whose load began at `started` and was measured up to `measure_to`: requests that were
  /// not sent, a trace that ended before the measurement, answers shorter than recorded.
  [[nodiscard]] std::vector<std::string> remarks(TimePoint started, TimePoint measure_to) const;

 private:
  struct ShortAnswer {
    std::uint64_t place = 0;  // in the trace
    std::uint32_t tokens = 0;
  };

  std::shared_ptr<const Trace> trace_;
  std::uint64_t sent_ = 0;
  std::uint64_t answered_ = 0;
  std::uint64_t short_ = 0;
  ShortAnswer shortest_;  // of short_, the one that lacks most
  TimePoint last_ended_;
};

}  // namespace kvist::workload

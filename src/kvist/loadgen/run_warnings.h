// What the log says of a load's turns, once each.
#pragma once

#include "kvist/workload/recorder.h"
#include "kvist/workload/turn_sample.h"

namespace kvist::loadgen {

/// Warns of the first failure of a load and of missing usage, because thousands of the same would hide them. Threads:
/// one.
class RunWarnings {
 public:
  /// A load begins, with these totals of the ones before it.
  void begin(const workload::RecorderTotals& before);
  /// `totals`: without this turn.
  void on_failed(const workload::TurnSample& sample, const workload::RecorderTotals& totals) const;
  /// `counts_tokens`: the client has a tokenizer.
  void on_finished(const workload::RecorderTotals& totals, bool counts_tokens);

 private:
  std::uint64_t failed_before_ = 0;
  std::uint64_t missing_usage_before_ = 0;
  bool missing_usage_warned_ = false;
};

}  // namespace kvist::loadgen

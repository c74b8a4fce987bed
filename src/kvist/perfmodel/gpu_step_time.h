// Private to perfmodel: the step time of one GPU combination. Everything that does not depend on the step is computed
// beforehand.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "kvist/base/time.h"
#include "kvist/perfmodel/gpu_combination.h"
#include "kvist/perfmodel/step_load.h"
#include "kvist/perfmodel/step_time_model.h"

namespace kvist::perfmodel {

/// The cost of one unit of each kind of work, in nanoseconds.
struct StepCosts {
  // Roofline terms.
  double weight_read = 0;  ///< per step
  double row = 0;          ///< of the matrix products, per row
  double exponent = 1;     ///< of the smooth maximum of the two
  double first_tile = 0;   ///< rows
  double tile = 0;         ///< rows
  double kv_token = 0;     ///< per token of context that a decoding sequence reads
  double pair = 0;         ///< of prefill attention, per token x token of its context
  double all_reduce_step = 0;
  double all_reduce_row = 0;
  // Fixed costs.
  double launch = 0;
  double sequence = 0;
  std::vector<std::pair<std::uint32_t, double>> tiles;  ///< (rows, additional time above so many rows), ascending
  bool has_graphs = false;                              ///< otherwise every batch counts as captured
  bool pads = false;
  double eager_extra = 0;
  double floor = 0;
  double floor_sequence = 0;
  double prefill_floor = 0;  ///< 0: same as `floor`
  double prefill_floor_sequence = 0;
  // Drafting.
  double draft_pass = 0;         ///< fixed part of a pass
  double draft_weight_read = 0;  ///< per pass
  double draft_row = 0;          ///< per row of a pass, and per prefill token
  double draft_kv_token = 0;     ///< per pass and token of context
  double verify_attention = 1;   ///< factor on kv_token where drafts are verified
  // Before the engine.
  double intake = 0;
  double intake_sequence = 0;
  double intake_steps = 0;  ///< of the last decode step's duration
  double intake_prompt_token = 0;
  double intake_jitter = 0;  ///< mean

  [[nodiscard]] static StepCosts of(const GpuCombination& combination);
};

/// Immutable; any thread.
class GpuStepTime {
 public:
  explicit GpuStepTime(const GpuCombination& combination);

  /// Zero for an empty step. 10 ns for a decode step, 60 ns for one with a prefill of many rows (two powers).
  [[nodiscard]] Duration step_time(const StepLoad& load) const;
  [[nodiscard]] Duration intake_delay(const IntakeLoad& load) const;
  [[nodiscard]] const StepCosts& costs() const { return costs_; }

 private:
  [[nodiscard]] double rows_computed(double rows) const;
  /// Reading weights, multiplying, tiles, all-reduce: what depends on the rows of a step.
  [[nodiscard]] double compute_rows_ns(std::uint64_t rows) const;
  [[nodiscard]] double rows_ns(std::uint64_t rows) const;
  [[nodiscard]] double drafting_ns(const StepLoad& load) const;
  /// The captured size that a batch runs as; 0: none.
  [[nodiscard]] std::uint64_t graph_size(std::uint64_t batch) const;
  [[nodiscard]] double floor_ns(const StepLoad& load) const;

  StepCosts costs_;
  std::vector<double> rows_table_;          // by rows
  std::vector<std::uint32_t> graph_table_;  // by batch: the captured size it runs as, 0 for none
};

}  // namespace kvist::perfmodel

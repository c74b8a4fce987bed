// A worker's figures, from one scrape of its /metrics.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "kvist/base/error.h"

namespace kvist::deploy {

/// Counters count from the start of the worker's process; gauges are momentary. Counters of kvist's worker that another
/// engine does not have are nothing, never zero.
struct WorkerMetrics {
  std::string worker;
  double process_start_time_s = 0;  ///< Unix time; a change means a restart
  double running = 0;
  double waiting = 0;
  double kv_usage = 0;  ///< 0 to 1
  double prefix_query_tokens = 0;
  double prefix_hit_tokens = 0;
  double prompt_tokens = 0;
  double generated_tokens = 0;
  double preemptions = 0;
  std::optional<double> prefilled_tokens;
  std::optional<double> evicted_blocks;
  std::optional<double> draft_tokens;
  std::optional<double> accepted_draft_tokens;
  std::optional<double> prefill_steps;  ///< engine steps that computed prompts only
  std::optional<double> mixed_steps;    ///< that computed both
  std::optional<double> decode_steps;   ///< that computed answers only
};

/// kCorrupt if the page is malformed or a number that every worker has is missing.
[[nodiscard]] Result<WorkerMetrics> read_worker_metrics(std::string worker, std::string_view page);

}  // namespace kvist::deploy

// Figures of recorded requests, answered once by a fleet and again in virtual time, and how they changed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kvist/planning/level_figures.h"
#include "kvist/workload/recorded_traffic.h"

namespace kvist::planning {

/// How a request was answered, by the gateway's clock.
struct AnsweredRequest {
  bool completed = false;
  std::optional<double> ttft_ms = {};
  std::optional<double> tpot_ms = {};
  double latency_ms = 0;
  std::uint32_t prompt_tokens = 0;
  std::optional<std::uint32_t> cached_tokens = {};
};
/// By place in the trace.
using Answers = std::vector<AnsweredRequest>;
using Places = std::vector<std::uint32_t>;

/// The answers as the gateway saw them.
[[nodiscard]] Answers observed_answers(const workload::RecordedTraffic& traffic);

/// The requests that are compared: those that were answered whole, without the first share of the recorded time, in
/// which caches are cold in the simulation and were not in reality. They are in consecutive blocks of equal size; there
/// are fewer blocks if there are too few requests.
[[nodiscard]] std::vector<Places> compared_blocks(const workload::RecordedTraffic& traffic, double warmup_share,
                                                  std::size_t blocks);
[[nodiscard]] Places joined(std::span<const Places> blocks);

/// Quantiles over these requests of all runs together; error share and hit rate in percent. No rates.
[[nodiscard]] LevelFigures figures_over(std::span<const Answers> runs, const Places& places);
/// The values of one kind, sorted.
[[nodiscard]] std::vector<double> sorted_values(std::span<const Answers> runs, const Places& places,
                                                std::optional<double> AnsweredRequest::* value);

/// A figure after a change, as a multiple of what it was before.
struct Change {
  double ratio = 1;
  /// The ratio's 95 % interval: Student's t over the logarithms of the blocks' ratios. Nothing with one block.
  std::optional<double> low = {};
  std::optional<double> high = {};

  bool operator==(const Change&) const = default;
};
/// Returns nothing unless both sides have the figure.
[[nodiscard]] std::optional<Change> change_of(Metric metric, std::span<const Answers> before,
                                              std::span<const Answers> after, std::span<const Places> blocks);

}  // namespace kvist::planning

// A level over time, reduced to what is drawn: what its workers did, and when its turns waited.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kvist/analysis/slow_turns.h"
#include "kvist/results/records.h"

namespace kvist::analysis {

/// Bounds of a view, whatever the length of the level and the number of workers.
inline constexpr std::size_t kMaxDrawnPoints = 150;  ///< per worker
inline constexpr std::size_t kMaxDrawnWorkers = 8;   ///< those with the most slow turns
inline constexpr std::size_t kMaxDrawnTurns = 300;   ///< evenly picked from those at or below p95
inline constexpr std::size_t kMaxDrawnSlowTurns = 150;
inline constexpr std::size_t kListedSlowTurns = 10;

/// One worker. Points that are too close to be drawn separately are merged: the largest value of each gauge, the last
/// of each counter.
struct WorkerTrack {
  std::string worker;
  std::uint32_t kv_blocks = 0;
  std::uint32_t max_batch_size = 0;
  std::vector<results::TimelinePoint> points;
  std::vector<double> seconds;  ///< of each point, since the start of the level
};

/// A successful turn as a dot.
struct TurnDot {
  double second = 0;  ///< sent, since the start of the level
  double ttft_ms = 0;
  std::size_t track = 0;  ///< index of its worker's track; the number of tracks if it is not drawn
  bool slow = false;      ///< above p95
};

struct TimelineView {
  std::vector<WorkerTrack> tracks;
  std::size_t workers = 0;  ///< workers that have a timeline, drawn or not
  std::vector<TurnDot> dots;
  std::vector<SlowTurn> slowest;  ///< at most kListedSlowTurns
  CauseCounts causes{};           ///< of all turns above p95
  double ttft_p95_ms = 0;         ///< exact, of the measuring window
  double measure_from_s = 0;      ///< since the start of the level
  double measure_to_s = 0;

  [[nodiscard]] bool empty() const { return tracks.empty(); }
};

/// Empty if the level has no timelines. The same level gives the same view.
[[nodiscard]] TimelineView condense(const results::LevelRecord& level);

}  // namespace kvist::analysis

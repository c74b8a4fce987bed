// A running sweep: its plan, where it is, and when it will probably end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/json_writer.h"
#include "kvist/base/time.h"
#include "kvist/dashboard/figures.h"

namespace kvist::dashboard {

enum class LevelState : std::uint8_t { kPlanned, kRunning, kDone, kFailed };
enum class SweepState : std::uint8_t { kStarting, kRunning, kFinished, kFailed };

struct SweepLevel {
  std::string mode;
  std::uint32_t concurrency = 0;
  std::uint32_t repetition = 0;
  LevelState state = LevelState::kPlanned;
  std::optional<TimePoint> started = {};
  std::optional<TimePoint> ended = {};
  LiveFigures figures = {};
};

/// Threads: one. Plain state, changed by the functions below.
struct SweepProgress {
  std::string name;
  SweepState state = SweepState::kStarting;
  std::string problem = {};
  std::string run = {};  ///< its id among the stored runs; empty: none yet
  std::vector<SweepLevel> levels = {};
  Duration warmup{};
  Duration measuring{};  ///< after the warm-up, to the last snapshot
  TimePoint begun{};
  std::optional<TimePoint> draining = {};  ///< the level under way is over, its turns are not

  [[nodiscard]] std::optional<std::size_t> position() const;
  /// "starting", "warm_up", "measuring", "draining"; empty between two levels.
  [[nodiscard]] std::string_view phase(TimePoint now) const;
  /// 0 to 1, by time.
  [[nodiscard]] double progress(TimePoint now) const;
  /// Estimated from what levels took until now or, before the first has ended, from what was ordered.
  [[nodiscard]] std::optional<TimePoint> estimated_end(TimePoint now) const;

 private:
  /// How long a level that is still to come will take.
  [[nodiscard]] Duration level_time() const;
  [[nodiscard]] Duration left(TimePoint now) const;
};

[[nodiscard]] std::string_view word(SweepState state);
[[nodiscard]] std::string_view word(LevelState state);

}  // namespace kvist::dashboard

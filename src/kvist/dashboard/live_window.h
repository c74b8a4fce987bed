// The figures of a load over the last moments, from what its feed tells.
#pragma once

#include <cstdint>

#include "kvist/base/time.h"
#include "kvist/base/windowed.h"
#include "kvist/dashboard/figures.h"
#include "kvist/workload/load_feed.h"
#include "kvist/workload/recorder.h"

namespace kvist::dashboard {

/// The window of quantiles and rates. It is long enough for a p95 of a few turns a second, and short enough to show a
/// change.
inline constexpr Duration kLiveWindow = std::chrono::seconds(30);

/// Computes the figures as the load generator does, on another thread than it. Threads: one. Memory: what a window of
/// turns takes.
class LiveWindow {
 public:
  LiveWindow();

  /// A load begins: it does not see the one before.
  void begin_run();
  /// Requires: batches come in the order of time.
  void add(const workload::LoadBatch& batch, TimePoint now);

  /// All figures except those that workers report: kQueued and kImbalance are nothing. A rate is over the time since
  /// the start of the load if that is shorter than the window.
  [[nodiscard]] LiveFigures figures(TimePoint now, std::uint32_t in_flight, Duration since_start) const;

 private:
  workload::Recorder recorder_;
  WindowedRate prompt_tokens_;
  WindowedRate cached_tokens_;
  /// Some usage of this run had cached tokens. Until then they are unknown, not 0.
  bool reports_cached_ = false;
  TimePoint last_end_{};
};

}  // namespace kvist::dashboard

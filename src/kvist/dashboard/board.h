// Everything that the dashboard shows of what happens now, and the messages that tell it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/time.h"
#include "kvist/dashboard/baseline.h"
#include "kvist/dashboard/conversations.h"
#include "kvist/dashboard/event_log.h"
#include "kvist/dashboard/live_window.h"
#include "kvist/dashboard/sweep_progress.h"
#include "kvist/dashboard/time_series.h"
#include "kvist/dashboard/workers.h"

namespace kvist::dashboard {

/// A limit of a figure, in its unit.
struct SloLine {
  std::size_t figure = 0;  ///< of kLiveKeys
  double limit = 0;
  bool is_least = false;  ///< the least that it may be; otherwise the most

  /// From here to the limit a value is marked.
  [[nodiscard]] double warning() const { return is_least ? limit / kSloWarning : kSloWarning * limit; }
  static constexpr double kSloWarning = 0.8;
};

/// What the process can be told to do.
struct Abilities {
  bool start_and_stop = false;
  bool concurrency = false;  ///< while the load runs
  bool rate = false;
  bool modes = false;  ///< there is a gateway
  bool token_required = false;
  [[nodiscard]] bool any() const { return start_and_stop || modes; }
};

/// Facts that change seldom or never.
struct Facts {
  std::string source;  ///< "up", "loadgen", "sweep", "gateway", "stored"
  std::string title;
  std::string target = {};  ///< empty: no load
  std::string model = {};
  std::optional<double> time_scale = {};
  Abilities abilities = {};
  std::vector<SloLine> slo = {};
  bool has_runs = false;
};

/// The load generator at one instant.
struct LoadState {
  std::string_view state = "idle";  ///< "idle", "running", "draining"
  bool open = false;                ///< arrivals do not wait for answers
  std::optional<std::uint32_t> concurrency = {};
  std::optional<double> rate_per_s = {};  ///< nothing: no limit
  std::uint64_t seed = 0;
  std::optional<TimePoint> started = {};  ///< nothing when idle
  std::uint32_t in_flight = 0;
  workload::RecorderTotals totals = {};
  std::optional<double> loop_delay_p99_ms = {};
  std::optional<double> loop_delay_max_ms = {};

  [[nodiscard]] bool is_idle() const { return state == "idle"; }
};

/// Is a gateway reached?
struct GatewayLink {
  std::string url;
  bool reached = false;
  std::string problem = {};
};

/// Threads: one. Instants of core time become Unix time by an offset that is fixed at the start, so that they do not
/// jump when the machine's clock is set. Memory: that of its parts, which all have bounds.
class Board {
 public:
  /// `server_id` differs after each start of the process.
  Board(Facts facts, std::string server_id, std::optional<Baseline> baseline, TimePoint now, double unix_s);

  // What happens.
  void on_load(const LoadState& state, const workload::LoadBatch& batch, TimePoint now);
  void on_fleet(FleetReading reading, GatewayLink link, TimePoint now);
  /// The settings with which a load that is started now would begin.
  void on_plan(std::uint32_t concurrency, std::optional<double> rate_per_s) { next_ = {concurrency, rate_per_s}; }
  void on_sweep(SweepProgress progress);
  /// The load was told to stop here. The stop may be over before it is seen.
  void on_stop(TimePoint now);
  /// To be called once a second: the figures become a sample, and a point of the history.
  void tick(TimePoint now);

  // Messages.
  [[nodiscard]] std::string hello_json(TimePoint now) const;
  [[nodiscard]] std::string baseline_message() const { return baseline_json(baseline_ ? &*baseline_ : nullptr); }
  /// The sample of the last tick; empty before the first.
  [[nodiscard]] const std::string& sample() const { return sample_; }
  [[nodiscard]] std::uint64_t sample_number() const { return seq_; }
  [[nodiscard]] const EventLog& events() const { return events_; }
  [[nodiscard]] const Conversations& conversations() const { return conversations_; }
  [[nodiscard]] const std::optional<SweepProgress>& sweep() const { return sweep_; }
  [[nodiscard]] std::uint64_t sweep_version() const { return sweep_version_; }
  [[nodiscard]] std::string sweep_message(TimePoint now) const;
  [[nodiscard]] std::string history_json(bool of_workers, std::int64_t window_s, std::size_t most) const;
  [[nodiscard]] std::int64_t unix_ms(TimePoint at) const;
  [[nodiscard]] const std::string& mode() const { return mode_; }
  [[nodiscard]] const Facts& facts() const { return facts_; }
  [[nodiscard]] const std::optional<LoadState>& load() const { return load_; }
  /// Memory of the past.
  [[nodiscard]] std::size_t history_bytes() const { return live_.bytes() + workers_.history_bytes(); }

 private:
  void note_changes(const LoadState& state, TimePoint now);
  void note_mode(const std::string& mode, TimePoint now);
  [[nodiscard]] LiveFigures figures_now(TimePoint now) const;
  void write_load(JsonWriter& json) const;
  void write_progress(JsonWriter& json, TimePoint now) const;
  void write_figures(JsonWriter& json, const LiveFigures& figures) const;
  [[nodiscard]] std::optional<std::uint32_t> concurrency() const;

  const Facts facts_;
  const std::string server_id_;
  std::optional<Baseline> baseline_;
  const TimePoint origin_;
  const std::int64_t origin_unix_ms_;
  LiveWindow window_;
  TimeSeries live_;  // kLiveKeys, then concurrency and running
  Workers workers_;
  Conversations conversations_;
  EventLog events_;
  std::optional<LoadState> load_;
  std::pair<std::uint32_t, std::optional<double>> next_ = {};
  bool stop_noted_ = false;  // of the load under way
  std::optional<GatewayLink> gateway_;
  std::optional<SweepProgress> sweep_;
  std::uint64_t sweep_version_ = 0;
  std::string mode_;  // empty: unknown
  std::uint64_t seq_ = 0;
  std::string sample_;
};

}  // namespace kvist::dashboard

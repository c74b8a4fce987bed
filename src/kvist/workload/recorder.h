// Records measurements: windows for the published method, raw samples for everything else, totals for /metrics.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kvist/base/time.h"
#include "kvist/base/windowed.h"
#include "kvist/base/windowed_histogram.h"
#include "kvist/workload/snapshot.h"
#include "kvist/workload/turn_sample.h"

namespace kvist::workload {

/// The durations of which the recorder keeps a window, in milliseconds.
enum class LatencyMetric : std::uint8_t {
  kTtft,     ///< sent to first token, of every turn that had one; observed when the first token arrives
  kTpot,     ///< (last token - first token) / (tokens - 1), of succeeded turns with usage and two tokens or more
  kItl,      ///< mean of the turn's gaps between content chunks: one value per succeeded turn, as was published
  kLatency,  ///< sent to end, of succeeded turns
};
inline constexpr std::size_t kLatencyMetricCount = 4;

/// The most raw samples that are kept until they are taken. Beyond either bound, new ones are refused and counted, so
/// that those kept are all turns up to some instant, and not a selection.
struct RecorderLimits {
  std::size_t samples = 2'000'000;
  std::size_t bytes = std::size_t{1} << 30;  ///< gaps between chunks dominate: about 7 kB for a turn of 840 tokens
};

/// Counts since the recorder was made. begin_run() does not reset them, so they only grow.
struct RecorderTotals {
  std::uint64_t turns_succeeded = 0;
  std::uint64_t turns_failed = 0;
  std::uint64_t turns_abandoned = 0;
  std::uint64_t conversations_started = 0;
  /// One per content chunk as it arrives. If usage reports more tokens than there were chunks, the rest is added when
  /// the turn ends.
  std::uint64_t output_tokens = 0;
  std::uint64_t missing_usage = 0;  ///< succeeded turns whose answer had no usage
  std::uint64_t samples_refused = 0;
};

/// Records events as they happen. A call takes a few additions, independent of the window's size; sorting happens when
/// a quantile is asked for. A window of token rates has at most one entry per millisecond, one of latencies one per
/// turn. Abandoned turns count neither as success nor as error; they only have a raw sample and a total of their own.
/// Threads: one. Requires: calls come in the order of time.
class Recorder {
 public:
  explicit Recorder(Duration window, RecorderLimits limits = {});

  /// Empties the windows and drops raw samples, so that a run does not see the one before.
  void begin_run();

  void on_conversation_started(TimePoint now);
  void on_first_token(TimePoint now, Duration ttft);
  /// `chunks` content chunks arrived, for one turn or for all turns that received some at this instant.
  void on_content_chunks(TimePoint now, std::uint32_t chunks);
  /// The gaps before some content chunks, in milliseconds: for gap_quantile_ms().
  void on_gaps(TimePoint now, std::span<const float> gaps_ms);
  void on_turn_finished(TurnSample sample, TimePoint now);

  [[nodiscard]] Snapshot snapshot(TimePoint now, std::uint32_t in_flight) const {
    return snapshot(now, in_flight, window_);
  }
  /// The same of the last `within`, which is at most the window.
  [[nodiscard]] Snapshot snapshot(TimePoint now, std::uint32_t in_flight, Duration within) const;
  /// The exact quantile over the window, in milliseconds; nothing if the window has no sample.
  [[nodiscard]] std::optional<double> quantile_ms(LatencyMetric metric, TimePoint now, double q) const;
  /// ITL: quantile of all gaps between content chunks within the window, pooled over turns, in milliseconds and at most
  /// 1 % too high; nothing if on_gaps() was never called within it.
  [[nodiscard]] std::optional<double> gap_quantile_ms(TimePoint now, double q) const { return gaps_.quantile(now, q); }
  /// The same of the last `within`, which is at most the window, and up to a twelfth of that more.
  [[nodiscard]] std::optional<double> gap_quantile_ms(TimePoint now, double q, Duration within) const {
    return gaps_.quantile(now, q, within);
  }
  [[nodiscard]] std::uint64_t gap_count() const { return gap_count_; }
  [[nodiscard]] double gap_sum_ms() const { return gap_sum_ms_; }
  [[nodiscard]] std::uint64_t count(LatencyMetric metric) const { return series(metric).count; }
  [[nodiscard]] double sum_ms(LatencyMetric metric) const { return series(metric).sum_ms; }
  [[nodiscard]] const RecorderTotals& totals() const { return totals_; }
  [[nodiscard]] std::size_t kept_samples() const { return samples_.size(); }

  /// Returns all raw samples since begin_run() or the last call, in the order of their ends, and keeps none.
  [[nodiscard]] std::vector<TurnSample> take_samples();

 private:
  /// A window, which is emptied by each run, and totals, which are not.
  struct Series {
    WindowedSummary window;
    std::uint64_t count = 0;
    double sum_ms = 0;
  };
  struct Rates {
    explicit Rates(Duration window) : output_tokens(window), succeeded(window), failed(window), starts(window) {}
    WindowedRate output_tokens, succeeded, failed, starts;
  };

  [[nodiscard]] Series& series(LatencyMetric metric) { return series_[static_cast<std::size_t>(metric)]; }
  [[nodiscard]] const Series& series(LatencyMetric metric) const { return series_[static_cast<std::size_t>(metric)]; }
  void observe(LatencyMetric metric, TimePoint now, double ms);
  void count_outcome(const TurnSample& sample, TimePoint now);
  void add_output_tokens(TimePoint now, std::uint32_t tokens);
  void keep(TurnSample sample);

  Duration window_;
  RecorderLimits limits_;
  std::array<Series, kLatencyMetricCount> series_;
  Rates rates_;
  WindowedHistogram gaps_;
  std::uint64_t gap_count_ = 0;
  double gap_sum_ms_ = 0;
  RecorderTotals totals_;
  std::vector<TurnSample> samples_;
  std::size_t kept_bytes_ = 0;
};

}  // namespace kvist::workload

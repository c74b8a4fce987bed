// One run of `kvist loadgen`: what was asked for, what was measured, and the figures of it, computed once for the
// console, the files and every export.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kvist/analysis/arrival_law.h"
#include "kvist/analysis/headline.h"
#include "kvist/results/records.h"
#include "kvist/spec/workload.h"
#include "kvist/workload/mix.h"
#include "kvist/workload/think_time.h"
#include "kvist/workload/turn_source.h"

namespace kvist::report {

/// How one of several threads of the client kept up.
struct LoadLoop {
  double delay_p99_ms = 0;
  double delay_max_ms = 0;
  std::uint64_t stalls = 0;
  double stalled_ms = 0;
  std::optional<double> run_queue_share = {};
};

/// The run as it was ordered and recorded.
struct LoadRun {
  std::string kvist_version;
  std::string target;  ///< http://host:port
  std::string model;
  std::string dataset;              ///< what was sent: "synthetic", or the name of a file
  std::string dataset_sha256 = {};  ///< of that file; empty: there is none
  std::shared_ptr<const std::vector<workload::WorkloadPart>> mix = nullptr;  ///< the kinds of conversations, if several
  workload::ThinkTime think_time = {};
  std::string prompt_ids = {};        ///< the range of ids of which prompts are made; empty: they are text
  std::string tokenizer_sha256 = {};  ///< of the tokenizer.json in whose tokens lengths are; empty: there was none
  std::string started_utc;            ///< ISO 8601
  double started_unix_s = 0;          ///< the same instant, which `level.started` is in core time
  std::string command;                ///< as the user typed it; empty: not known
  std::string request_prefix;         ///< X-Request-Id is "<prefix>-<conversation>-<turn>"
  spec::WorkloadSpec workload;
  std::optional<std::uint32_t> concurrency = {};      ///< closed loop
  std::optional<double> rate_per_s = {};              ///< open loop: starts per second that were ordered
  std::optional<std::uint64_t> requests = {};         ///< as many were ordered
  workload::HeldBack held_back = {};                  ///< open loop: arrivals that waited for a place
  std::vector<workload::AppliedChange> changes = {};  ///< of the load while it ran
  std::vector<LoadLoop> loops = {};                   ///< of the client, if it has several threads
  bool is_chat = true;                                ///< or completions
  results::LevelRecord level;                         ///< all turns; measure_from and measure_to bound the window
};

/// Turns by outcome, of those sent within the window, and sums over the successful ones.
struct LoadTotals {
  std::size_t sent = 0;
  std::size_t succeeded = 0;
  std::size_t failed = 0;
  std::size_t abandoned = 0;
  std::size_t without_usage = 0;  ///< successful ones
  std::uint64_t prompt_tokens = 0;
  std::uint64_t cached_tokens = 0;  ///< unknown, not 0, unless knows_cached()
  std::uint64_t output_tokens = 0;
  bool reports_cached = false;  ///< some usage had cached tokens: who leaves them out where there are none has none
  [[nodiscard]] bool knows_cached() const { return without_usage == 0 && prompt_tokens > 0 && reports_cached; }
};

/// The figures of a run. Percentiles are over the successful turns sent within the window, rates over what happened
/// within it and its true length.
struct LoadFigures {
  analysis::MeasuredLevel level;
  LoadTotals totals;
  double window_s = 0;
  std::optional<double> completed_per_s;          ///< successful turns that ended within the window
  std::optional<double> prompt_tokens_per_s;      ///< theirs; nothing where one sent no usage
  std::optional<double> output_tokens_per_s;      ///< that arrived within the window
  Distribution send_delay_ms;                     ///< sent - intended
  std::optional<analysis::ArrivalTest> arrivals;  ///< open loop

  [[nodiscard]] const analysis::ExactFigures& exact() const { return level.analysis.exact; }
  [[nodiscard]] analysis::Estimate estimate(analysis::Headline which) const {
    return analysis::estimate_of(level, analysis::headline(which));
  }
};

/// Linear in the samples, and the bootstrap of the intervals.
[[nodiscard]] LoadFigures figures_of(const LoadRun& run);

/// Whether some usage had cached tokens. Who leaves them out where there are none has none; where nobody ever has any,
/// those of a turn are not known.
[[nodiscard]] bool reports_cached(const results::LevelRecord& level);

/// Whether a turn was sent within the window; one that never was counts by when it should have been.
[[nodiscard]] bool sent_in_window(const results::LevelRecord& level, const workload::TurnSample& turn);

/// When the last of the turns was sent; one that never was counts by when it should have been. `start` if there are
/// none.
[[nodiscard]] TimePoint last_sent(const std::vector<workload::TurnSample>& turns, TimePoint start);

/// What a reader must know of a window that ended with the last request sent, `measure_to`, if fewer than half of the
/// answers had ended by then; nothing otherwise.
[[nodiscard]] std::optional<std::string> short_window_remark(const results::LevelRecord& level);

/// What a reader must know of a target to which it took long to connect and send, which TTFT does not show: it begins
/// when a request is sent. Nothing if no request within the window took long.
[[nodiscard]] std::optional<std::string> connection_remark(const results::LevelRecord& level);

/// The successful turns sent within the window, in the order in which they were sent.
[[nodiscard]] std::vector<const workload::TurnSample*> measured_turns(const results::LevelRecord& level);

}  // namespace kvist::report

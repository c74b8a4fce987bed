// Predicts, per worker, the time to first token of a request: from the load, the limits and what was learned.
#pragma once

#include <cstdint>
#include <vector>

#include "kvist/base/id.h"
#include "kvist/base/time.h"
#include "kvist/routing/forecast.h"
#include "kvist/routing/latency_model.h"
#include "kvist/routing/load_tracker.h"
#include "kvist/routing/output_lengths.h"
#include "kvist/routing/worker_view.h"

namespace kvist::routing {

/// What a request would bring to a worker.
struct ForecastQuery {
  std::uint32_t prompt_tokens = 0;
  std::uint32_t uncached_tokens = 0;
  std::uint32_t new_blocks = 0;  ///< prompt blocks that no request on the worker holds
};

/// One latency model per worker (GPUs differ), one distribution of answer lengths for all. Learns in every routing
/// mode. Pure; one thread: the router's. Told of a request before the load tracker is, of its end before it is taken
/// off.
class Forecaster {
 public:
  /// `loads` outlives it.
  Forecaster(const LoadTracker& loads, std::size_t workers, const spec::StepTimeSpec& prior, std::uint32_t block_size);

  [[nodiscard]] Forecast forecast(WorkerId worker, const EngineLimits& limits, const ForecastQuery& query) const;

  /// The request goes to this worker, with this expectation. `queued_tokens`: uncached tokens before it there.
  void on_routed(RequestId request, WorkerId worker, const Forecast& forecast, std::uint64_t prefill_tokens,
                 TimePoint now);
  void on_first_token(RequestId request, TimePoint now);
  void on_progress(RequestId request, TimePoint now);
  /// `completed`: the answer came to its own end, so that its length tells something.
  void on_finished(RequestId request, bool completed);

  [[nodiscard]] const LatencyModel& model(WorkerId worker) const { return workers_.at(worker.value()).model; }
  [[nodiscard]] const OutputLengths& output_lengths() const { return lengths_; }

 private:
  struct Worker {
    explicit Worker(const spec::StepTimeSpec& prior) : model(prior) {}
    LatencyModel model;
    // The request whose tokens clock the worker's steps, and the worker at its last token.
    RequestId clock;
    TimePoint clocked;
    std::uint32_t decoding = 0;
    bool clean = false;  // nothing but decoding went on since
  };
  struct Pending {
    TimePoint routed;
    double step_ms = 0;
    double prefill_tokens = 0;
    bool has_slot = false;
  };
  [[nodiscard]] bool only_decodes(WorkerId worker) const;

  const LoadTracker* loads_;
  std::uint32_t block_size_;
  std::vector<Worker> workers_;  // by WorkerId
  OutputLengths lengths_;
  FlatMap<RequestId, Pending> pending_;  // without a first token
};

}  // namespace kvist::routing

// Predicts, per worker, the time to first token of a request: from the load, the limits and what was learned.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "kvist/base/id.h"
#include "kvist/base/time.h"
#include "kvist/routing/fleet_latency.h"
#include "kvist/routing/forecast.h"
#include "kvist/routing/load_tracker.h"
#include "kvist/routing/output_lengths.h"
#include "kvist/routing/prefill_queue.h"
#include "kvist/routing/routed_request.h"
#include "kvist/routing/worker_view.h"

namespace kvist::routing {

/// What a request would bring to a worker.
struct ForecastQuery {
  std::uint32_t prompt_tokens = 0;
  std::uint32_t uncached_tokens = 0;
  std::uint32_t new_blocks = 0;  ///< prompt blocks that no request on the worker holds
};

/// An answer that came in one piece, as its end tells of it.
struct WholeAnswer {
  std::uint64_t tokens = 0;
  std::uint32_t prompt_tokens = 0;
  std::optional<std::uint32_t> cached_tokens = {};  ///< of the prompt; nothing where the worker does not say
};

/// One latency model per worker (GPUs differ) beside one of the fleet (FleetLatency), one distribution of answer
/// lengths for all. Learns in every routing mode, from streams token by token and from whole answers by their time.
/// Pure; one thread: the router's. Told of a request before the load tracker is, and of its end before the tracker
/// forgets it.
class Forecaster {
 public:
  /// `loads` outlives it. `prior`: the step time of every worker until its own is known.
  Forecaster(const LoadTracker& loads, std::size_t workers, const spec::StepTimeSpec& prior, std::uint32_t block_size);

  [[nodiscard]] Forecast forecast(WorkerId worker, const EngineLimits& limits, const ForecastQuery& query,
                                  TimePoint now) const;

  /// The request goes to its worker, with this expectation.
  void on_routed(RoutedRequest& request, const Forecast& forecast, TimePoint now);
  void on_first_token(RoutedRequest& request, TimePoint now);
  void on_progress(const RoutedRequest& request, TimePoint now);
  /// The answer is here, all at once: one equation for what its first token and its steps took.
  void on_whole_answer(RoutedRequest& request, const WholeAnswer& answer, TimePoint now);
  /// `completed`: the answer came to its own end, so that its length tells something.
  void on_finished(const RoutedRequest& request, bool completed, TimePoint now);

  /// By the worker's own record, of all its prompts without a first token.
  [[nodiscard]] double prefill_under_way_ms(WorkerId worker) const;
  [[nodiscard]] const LatencyModel& model(WorkerId worker) const { return latency_.model(worker); }
  [[nodiscard]] const FleetLatency& latency() const { return latency_; }
  [[nodiscard]] const OutputLengths& output_lengths() const { return lengths_; }

 private:
  struct Worker {
    // The request whose tokens clock the worker's steps (0: none does), and the worker at its last token.
    RequestId clock;
    TimePoint clocked;
    std::uint32_t decoding = 0;
    bool clean = false;  // nothing but decoding went on since
    PrefillQueue prompts;
    double mean_requests = 0;    // up to `averaged`, as the next
    double request_seconds = 0;  // in flight, summed
    TimePoint averaged;
  };
  struct Room {
    bool has_slot = true;
    bool scarce = false;
    double endings = 0;  // requests that have to end before there is room
  };
  [[nodiscard]] bool only_decodes(WorkerId worker) const;
  [[nodiscard]] double queue_ms(WorkerId worker, double step_ms, TimePoint now) const;
  [[nodiscard]] double mean_requests(WorkerId worker, TimePoint now) const;
  [[nodiscard]] Room room(WorkerId worker, const EngineLimits& limits, const ForecastQuery& query) const;
  void average(WorkerId worker, TimePoint now);

  const LoadTracker* loads_;
  std::uint32_t block_size_;
  FleetLatency latency_;
  std::vector<Worker> workers_;  // by WorkerId
  OutputLengths lengths_;
};

}  // namespace kvist::routing

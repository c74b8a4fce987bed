// Predicts, per worker, the time to first token of a request: from the load, the limits and what was learned.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kvist/base/id.h"
#include "kvist/base/time.h"
#include "kvist/routing/admission.h"
#include "kvist/routing/fleet_latency.h"
#include "kvist/routing/forecast.h"
#include "kvist/routing/load_tracker.h"
#include "kvist/routing/output_lengths.h"
#include "kvist/routing/prefill_queue.h"
#include "kvist/routing/returning_requests.h"
#include "kvist/routing/routed_request.h"
#include "kvist/routing/worker_view.h"

namespace kvist::routing {

/// What a request would add to a worker's load.
struct ForecastQuery {
  std::uint32_t prompt_tokens = 0;
  std::uint32_t uncached_tokens = 0;
  std::uint32_t new_blocks = 0;        ///< prompt blocks that no request on the worker holds
  std::uint64_t displaced_blocks = 0;  ///< of reused prefixes that the worker's cache has no room for beside the prompt
};

/// An answer that came in one piece.
struct WholeAnswer {
  std::uint64_t tokens = 0;
  std::uint32_t prompt_tokens = 0;
  std::optional<std::uint32_t> cached_tokens = {};  ///< of the prompt; nothing if the worker does not report it
};

/// Has one latency model per worker, because GPUs differ, one of the fleet (FleetLatency), and one distribution of
/// answer lengths for all workers. It learns in every routing mode: from streamed answers token by token, from other
/// answers by their total time. Threads: the router's. Requires: the start and the end of a request are reported here
/// before they are reported to the load tracker.
class Forecaster {
 public:
  /// Forecast::since_routed_ms counts up to here, which is some steps of any engine: whom to give a request next is a
  /// matter of the current steps, and after longer pauses the mean load says more.
  static constexpr double kRecentMs = 1'000;

  /// `prior` is every worker's step time until its own was measured. Requires: `loads` outlives this object.
  Forecaster(const LoadTracker& loads, std::size_t workers, const spec::StepTimeSpec& prior, std::uint32_t block_size);

  [[nodiscard]] Forecast forecast(WorkerId worker, const EngineLimits& limits, const ForecastQuery& query,
                                  TimePoint now) const;
  // Parts of a forecast, for those who do not need all of it.
  /// The room that a worker has for a request: batch slots and KV memory.
  struct Room {
    bool has_slot = true;
    bool scarce = false;
    double endings = 0;         ///< requests that have to end before a slot and enough KV memory are free
    bool lacks_memory = false;  ///< there is not enough KV memory now
  };
  [[nodiscard]] Room room(WorkerId worker, const EngineLimits& limits, const ForecastQuery& query, TimePoint now) const;
  [[nodiscard]] double mean_requests(WorkerId worker, TimePoint now) const;
  [[nodiscard]] double since_routed_ms(WorkerId worker, TimePoint now) const {
    return std::min(kRecentMs, to_milliseconds(now - recent_[worker.value()].routed));
  }
  /// When this gateway gave it its last request; a point before any time if it gave it none.
  [[nodiscard]] TimePoint last_routed(WorkerId worker) const { return recent_[worker.value()].routed; }
  /// The prefill on an average worker of so many blocks that a prompt of so many tokens displaces.
  [[nodiscard]] double displaced_ms(std::uint64_t displaced_blocks, std::uint32_t prompt_tokens) const;
  [[nodiscard]] double error(WorkerId worker) const;
  [[nodiscard]] const PrefillQueue& prompts(WorkerId worker) const { return workers_[worker.value()].prompts; }
  [[nodiscard]] const ReturningRequests& returning(WorkerId worker) const { return workers_[worker.value()].returning; }

  /// The request goes to its worker, for which `forecast` was made with `limits`. `known_tokens` of its prompt are
  /// cached by the worker of the fleet that has cached most of it.
  void on_routed(RoutedRequest& request, const Forecast& forecast, const EngineLimits& limits,
                 std::uint32_t known_tokens, TimePoint now);
  void on_first_token(RoutedRequest& request, TimePoint now);
  /// The request's answer went on by `tokens`, which the load tracker knows already.
  void on_progress(const RoutedRequest& request, std::uint64_t tokens, TimePoint now);
  /// An answer in a run has come from one length to another.
  void on_moved(std::uint64_t from, std::uint64_t to) { lengths_.on_progress(from, to); }
  /// How many requests of the worker's run have their token before its clock does and with it; 0 if the clock is not in
  /// the run. A worker without a clock gets one. Requires: the run is not empty.
  [[nodiscard]] std::size_t ticking(WorkerId worker, std::span<const RequestId> run);
  /// The worker's run, so many requests, has gone on by a step, which the load tracker knows already.
  void on_run_step(WorkerId worker, std::size_t run, std::size_t ticking, TimePoint now);
  /// The whole answer came at once. Its time is one equation for the times of its first token and of its steps.
  void on_whole_answer(RoutedRequest& request, const WholeAnswer& answer, TimePoint now);
  /// `completed`: the answer reached its own end, so that its length can be learned from.
  void on_finished(const RoutedRequest& request, bool completed, TimePoint now);

  /// The id belongs to another worker from here on. Requires: no request is at the worker.
  void forget(WorkerId worker);

  /// When the prompt of a request is computed, and its first token comes, by the forecast; for one that is not seen.
  struct Unseen {
    TimePoint computed;
    TimePoint first_token;
  };
  [[nodiscard]] Unseen unseen(const RoutedRequest& request, TimePoint now) const;
  /// The prompt of a request whose first token is not seen counts as computed since `at`.
  void on_unseen_computed(const RoutedRequest& request, TimePoint at) {
    workers_[request.worker.value()].prompts.on_computed(request.id, at);
  }
  /// How long all prompts of the worker without a first token take, by the worker's own model.
  [[nodiscard]] double prefill_under_way_ms(WorkerId worker) const;
  /// Whether the worker's engine has shown that it has no room for the oldest request that waits there.
  [[nodiscard]] bool has_no_room(WorkerId worker) const { return workers_[worker.value()].admission.stalled(); }
  /// How many requests of the fleet are on their way into the engines and out of them, on average: the requests that
  /// came in the last seconds, each for as long as its first token would take without a wait and without its prefill.
  /// They have no first token and wait for nobody.
  [[nodiscard]] double in_transit(TimePoint now) const;
  /// The sum of all prefill that was forecast for requests when they were routed, so far.
  [[nodiscard]] double routed_prefill_ms() const { return routed_prefill_ms_; }
  [[nodiscard]] const LatencyModel& model(WorkerId worker) const { return latency_.model(worker); }
  [[nodiscard]] const FleetLatency& latency() const { return latency_; }
  [[nodiscard]] const OutputLengths& output_lengths() const { return lengths_; }
  /// For a caller that has something else to do until the model, the queue and the rate of a worker are there.
  void prefetch(WorkerId worker) const {
    latency_.prefetch(worker);
    __builtin_prefetch(&workers_[worker.value()].prompts);
    __builtin_prefetch(&workers_[worker.value()].returning);
  }

 private:
  struct Worker {
    // The request whose tokens time the worker's steps (0: none), and the state of the worker at its last token.
    RequestId clock;
    TimePoint clocked;
    std::uint32_t decoding = 0;
    bool clean = false;      // only decoding went on since then
    bool new_clock = false;  // it has not timed a step yet
    double step_ms = 0;      // the last one that one request's tokens timed
    PrefillQueue prompts;
    Admission admission;
    ReturningRequests returning;
    std::uint32_t whole_answers = ~0U;  // since the last first token that was seen, or more
    double request_seconds = 0;         // requests in flight, integrated over time up to Recent::averaged
    PrefillSum routed_work;             // of all prompts so far
    PrefillSum unseen_work;             // of those whose first tokens are not seen here
    PrefillSum unseen_before_last;      // the same when the one was routed whose first token was seen last
    TimePoint last_routed{};            // when it was routed
  };
  // What decides between many workers of equal cost, apart from the rest, so that it takes little memory.
  struct Recent {
    TimePoint routed = TimePoint{} - from_milliseconds(kRecentMs);  // when this gateway gave it its last request
    TimePoint averaged;
    double mean_requests = 0;  // up to `averaged`
  };
  [[nodiscard]] bool only_decodes(WorkerId worker) const;
  [[nodiscard]] bool came_in_order(const RoutedRequest& request, TimePoint now) const;
  [[nodiscard]] TimePoint surely_due(WorkerId worker, const PrefillQueue::Prompt& prompt) const;
  void watch_admission(WorkerId worker, double gap_ms, std::uint64_t context, TimePoint now);
  /// The worker's clock has its next token. `context`: the tokens that attention read for it and those before it.
  void tick(WorkerId worker, std::uint64_t context, TimePoint now);
  [[nodiscard]] double running_blocks(WorkerId worker, TimePoint now) const;
  [[nodiscard]] std::uint32_t lost_tokens(const ForecastQuery& query, const Room& room) const;
  [[nodiscard]] double queue_ms(WorkerId worker, const FleetLatency::Expectation& model, double step_ms,
                                TimePoint now) const;
  void average(WorkerId worker, TimePoint now);
  /// The work of prompts that came to the worker after the request and are computed.
  [[nodiscard]] static PrefillSum computed_since(const Worker& worker, const RoutedRequest& request);
  [[nodiscard]] WholeAnswerSample whole_answer_sample(const RoutedRequest& request, const WholeAnswer& answer,
                                                      double elapsed_ms, TimePoint now);

  const LoadTracker* loads_;
  std::uint32_t block_size_;
  spec::StepTimeSpec prior_;
  FleetLatency latency_;
  std::vector<Worker> workers_;  // by WorkerId, as is the next
  std::vector<Recent> recent_;
  OutputLengths lengths_;
  // The last request of which another gateway told: its RoutedRequest::late, and when that was.
  Duration late_{};
  TimePoint told_at_{};
  double routed_prefill_ms_ = 0;
  double transit_ms_ = 0;  // of the requests that came, older ones less, as of the next
  TimePoint transit_at_{};
};

}  // namespace kvist::routing

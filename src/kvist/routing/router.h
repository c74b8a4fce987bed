// The router: which worker gets a request, and the bookkeeping that the next decision rests on.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/id.h"
#include "kvist/base/time.h"
#include "kvist/kv/kv_event.h"
#include "kvist/kv_index/kv_index.h"
#include "kvist/routing/cache_knowledge.h"
#include "kvist/routing/decision_log.h"
#include "kvist/routing/forecaster.h"
#include "kvist/routing/load_tracker.h"
#include "kvist/routing/policy.h"
#include "kvist/routing/prompt_keys.h"
#include "kvist/routing/routed_request.h"
#include "kvist/routing/worker_view.h"
#include "kvist/spec/routing_mode.h"
#include "kvist/spec/step_time_spec.h"

namespace kvist::routing {

/// A request as the router sees it.
struct RouteQuery {
  RequestId request;
  std::string name = {};  ///< what the client calls it: the record of the decision has it
  std::uint32_t prompt_tokens = 0;
  BlockKeys blocks;  ///< of the prompt, with the model, LoRA name and salt in the root
  /// The same prompt for workers that make other tokens of its text than the rest; empty as a rule.
  std::vector<PromptKeys> otherwise = {};
  bool reads_cache = true;    ///< false: all of it is computed, whatever is cached; its blocks are kept all the same
  std::uint64_t session = 0;  ///< what the client says the request belongs to, hashed; 0: nothing
  std::vector<WorkerId> excluded;  ///< workers that this request must not go to (again)
};

/// Where a request goes. Router::log() has all that led there.
struct Decision {
  WorkerId worker;
  spec::RoutingMode mode = spec::RoutingMode::kRoundRobin;
  std::uint32_t predicted_cached_tokens = 0;
  double forecast_ttft_ms = 0;
  DecisionReason reason = DecisionReason::kPolicy;
  TimePoint at;
  RequestHandle request = {};  ///< the request at this worker: what comes of it is told by this
};

/// Pure: no threads, clock or I/O; a decision is a function of the calls before it. One thread uses it. The index is
/// fed and the load tracked in every mode, so that a switch of mode meets a warm index.
class Router {
 public:
  struct Options {
    std::string model;
    std::uint32_t block_size = 32;
    std::size_t workers = 0;
    spec::RoutingMode mode = spec::RoutingMode::kRoundRobin;
    std::uint64_t seed = 1;
    spec::StepTimeSpec latency_prior = {};  ///< of every worker, until its own steps are known
  };

  explicit Router(Options options);

  /// Chooses among the available workers of `fleet` (by id; Options::workers of them) and books the request's load.
  /// kUnavailable where none is left. A request that is routed again was finished before.
  [[nodiscard]] Result<Decision> route(const RouteQuery& query, std::span<const WorkerView> fleet, TimePoint now);

  // What follows tells of a request by the handle in its decision. Of one that left its worker nothing is taken in.
  /// Has the processor fetch what the three below will touch: for callers with many requests at once.
  void prefetch(RequestHandle request) const { requests_.prefetch(request); }
  /// The prompt is computed: it no longer counts as prefill load.
  void on_first_token(RequestHandle request, TimePoint now);
  /// So many more tokens were generated. The worker that did; nothing where the request left it.
  std::optional<WorkerId> on_progress(RequestHandle request, std::uint64_t tokens, TimePoint now);
  /// The answer is here, all at once. To be called where nothing of it was seen before, ahead of on_usage().
  void on_whole_answer(RequestHandle request, const WholeAnswer& answer, TimePoint now);
  /// What the engine says of the request's prompt.
  void on_usage(RequestHandle request, std::uint64_t prompt_tokens, std::uint64_t cached_tokens);
  /// The request left its worker, however it ended; `completed`: its answer came to its end. Idempotent.
  void on_finished(RequestHandle request, bool completed, TimePoint now);
  /// Null where it left its worker; valid until it does.
  [[nodiscard]] const RoutedRequest* find(RequestHandle request) const { return requests_.find(request); }

  /// Has the processor fetch what events of a worker will touch: for callers that have yet to read them.
  void prefetch_kv_events(WorkerId worker) const { caches_.prefetch_events(worker); }
  /// Applies events in order; returns how many were refused (index().counters() says why).
  std::size_t on_kv_events(WorkerId worker, std::span<const kv::KvEvent> events);
  /// The worker's cache content is unknown from here on: forget it.
  void reset_worker(WorkerId worker) { caches_.reset_events(worker); }
  /// The worker began anew with an empty cache. Its events, where it has any, tell so by themselves.
  void on_worker_restarted(WorkerId worker) { caches_.on_restarted(worker); }

  void set_mode(spec::RoutingMode mode);
  [[nodiscard]] spec::RoutingMode mode() const { return mode_; }
  [[nodiscard]] const kv_index::KvIndex& index() const { return caches_.index(); }
  [[nodiscard]] const CacheKnowledge& caches() const { return caches_; }
  [[nodiscard]] const Forecaster& forecaster() const { return forecaster_; }
  [[nodiscard]] const LoadTracker& loads() const { return loads_; }
  [[nodiscard]] const DecisionLog& log() const { return log_; }
  /// Decisions so far in a mode.
  [[nodiscard]] std::uint64_t decisions(spec::RoutingMode mode) const {
    return decisions_[static_cast<std::size_t>(mode)];
  }

 private:
  /// Fills depths_ and shared_, as if every worker read the prompt under these names.
  void look_up(const RouteQuery& query, const BlockKeys& keys, std::span<const WorkerView> fleet, TimePoint now);
  /// The same, each worker as it reads the prompt.
  void look_up(const RouteQuery& query, std::span<const WorkerView> fleet, TimePoint now);
  /// Makes candidates_ those of this request.
  void find_candidates(const RouteQuery& query, std::span<const WorkerView> fleet, TimePoint now);
  void replicate_hot_prefix(std::span<const kv::BlockHash> prompt);

  std::size_t workers_;
  std::uint64_t seed_;
  spec::RoutingMode mode_;
  std::unique_ptr<RoutingPolicy> policy_;
  RoutedRequests requests_;
  CacheKnowledge caches_;
  LoadTracker loads_;
  Forecaster forecaster_;
  DecisionLog log_{{}};
  std::vector<Candidate> candidates_;  // scratch of route(); the next too, by WorkerId
  std::vector<CacheDepth> depths_;
  std::vector<std::uint32_t> shared_;
  std::array<std::uint64_t, spec::kRoutingModeCount> decisions_{};  // by RoutingMode
};

}  // namespace kvist::routing

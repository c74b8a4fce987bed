// The router: which worker gets a request, and the bookkeeping that the next decision rests on.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/id.h"
#include "kvist/base/time.h"
#include "kvist/kv/kv_event.h"
#include "kvist/kv/kv_event_view.h"
#include "kvist/kv_index/kv_index.h"
#include "kvist/routing/admission_check.h"
#include "kvist/routing/cache_knowledge.h"
#include "kvist/routing/decision_log.h"
#include "kvist/routing/decode_runs.h"
#include "kvist/routing/fleet_view.h"
#include "kvist/routing/forecast_source.h"
#include "kvist/routing/forecaster.h"
#include "kvist/routing/ghost_cache.h"
#include "kvist/routing/kv_shortlist.h"
#include "kvist/routing/load_observer.h"
#include "kvist/routing/load_tracker.h"
#include "kvist/routing/peer_request.h"
#include "kvist/routing/policy.h"
#include "kvist/routing/prompt_keys.h"
#include "kvist/routing/reused_prefixes.h"
#include "kvist/routing/routed_request.h"
#include "kvist/routing/session_table.h"
#include "kvist/routing/unseen_first_tokens.h"
#include "kvist/routing/usable_worker.h"
#include "kvist/routing/usable_workers.h"
#include "kvist/routing/worker_view.h"
#include "kvist/routing/working_set.h"
#include "kvist/spec/routing_mode.h"
#include "kvist/spec/routing_spec.h"
#include "kvist/spec/step_time_spec.h"

namespace kvist::routing {

/// A request as the router sees it.
struct RouteQuery {
  RequestId request;
  std::string name = {};  ///< what the client calls it: the record of the decision has it
  std::uint32_t prompt_tokens = 0;
  BlockKeys blocks;  ///< of the prompt, with the model, LoRA name and salt in the root
  /// The same prompt for workers that tokenize its text differently from the rest; usually empty.
  std::vector<PromptKeys> otherwise = {};
  bool streams = false;            ///< its answer's tokens will be reported one by one, as they come
  std::uint32_t choices = 1;       ///< answers that are generated for its prompt
  bool reads_cache = true;         ///< false: all of it is computed, and only then cached
  std::uint64_t session = 0;       ///< hash of the session that the client named (session_key()); 0: none
  std::string adapter = {};        ///< only workers that have this adapter (LoRA) can take it; empty: all can
  std::vector<WorkerId> excluded;  ///< workers that this request must not go to (again)
  std::size_t fallbacks = 0;       ///< how many further workers the decision is to name
};

/// Where a request goes. Router::log() has the candidates, their costs and the reason.
struct Decision {
  WorkerId worker;
  spec::RoutingMode mode = spec::RoutingMode::kRoundRobin;
  std::uint32_t predicted_cached_tokens = 0;
  double forecast_ttft_ms = 0;
  double forecast_wait_ms = 0;  ///< the part of it that is waiting: for a slot, and for the prompts before this one
  DecisionReason reason = DecisionReason::kPolicy;
  TimePoint at;
  RequestHandle request = {};  ///< names the request at this worker in the calls that follow
  /// The workers of the next lower costs, at most RouteQuery::fallbacks: they were candidates too.
  std::vector<WorkerId> fallbacks = {};
};

/// Chooses a worker per request and keeps what the next choices need. A decision is a function of the calls before it:
/// there is no clock and no I/O here. In every mode the index receives the events and the load is tracked, so a change
/// of the mode finds a warm index. Threads: one.
class Router {
 public:
  struct Options {
    std::string model;
    std::uint32_t block_size = 32;
    std::size_t workers = 0;
    spec::RoutingMode mode = spec::RoutingMode::kRoundRobin;
    std::uint64_t seed = 1;
    spec::TierWeightsSpec tier_weights = {};
    spec::SessionAffinitySpec session_affinity = {};  ///< in mode kv
    spec::ObjectiveSpec objective = {};               ///< likewise
    spec::StepTimeSpec latency_prior = {};            ///< every worker's step time until its own steps were measured
    bool working_set = false;  ///< whether there is open_working_set(), which takes up to a sixth of a decision
    /// How many candidates log() keeps of a decision, at least the chosen one; 0: all of up to 64 usable workers, and
    /// of more the best 8. If it keeps more than one, an idle worker is among them (DecisionLog).
    std::size_t recorded = 0;
    std::uint64_t sample_key = 0;  ///< of GhostCache: what clients cannot know
    bool shortlist = true;         ///< false: mode kv forecasts every worker of a large fleet too, with the same result
    /// Given if another thread owns event_index(): makes the gates that keep that thread and routing apart.
    PromptsUnderWay::MakeGate make_gate = {};
    /// What mode clairvoyant asks; null: its forecasts are those of mode kv. Requires: it outlives the router.
    ForecastSource* forecasts = nullptr;
  };

  explicit Router(Options options);

  /// Chooses among the available workers of `fleet` and books the request's load on the chosen one. Returns
  /// kUnavailable if no worker is left. With a `check`, the worker is one that it admits; if it admits none,
  /// kResourceExhausted is returned and nothing is booked. Requires: `fleet` has Options::workers elements, by id; a
  /// request that is routed again was finished first.
  [[nodiscard]] Result<Decision> route(const RouteQuery& query, const FleetView& fleet, TimePoint now,
                                       AdmissionCheck* check = nullptr);

  // The calls below name a request by the handle in its decision. After on_finished() they do nothing.
  /// Prefetches the memory that the next three calls read, for a caller that reports on many requests at once.
  void prefetch(RequestHandle request) const { requests_.prefetch(request); }
  /// The prompt is computed and no longer counts as prefill load.
  void on_first_token(RequestHandle request, TimePoint now);
  /// `tokens` more tokens were generated. Returns the worker, or nothing if the request has left it.
  std::optional<WorkerId> on_progress(RequestHandle request, std::uint64_t tokens, TimePoint now);
  // For a caller that learns of a worker's steps, and not of every token: the same as on_progress() with one token for
  // each request of the worker's run.
  /// The request, whose first token has arrived, is in its worker's run from the next on_run_step() on, until it leaves
  /// the run or its worker.
  void join_run(RequestHandle request);
  void leave_run(RequestHandle request);
  /// Each request in the worker's run has one token more. Returns how many there are.
  std::size_t on_run_step(WorkerId worker, TimePoint now);
  /// The whole answer arrived at once. Requires: no token of it was reported before, and on_usage() comes after this.
  void on_whole_answer(RequestHandle request, const WholeAnswer& answer, TimePoint now);
  /// The prompt's tokens and cached tokens as the engine reports them in its usage.
  void on_usage(RequestHandle request, std::uint64_t prompt_tokens, std::uint64_t cached_tokens);
  /// The attempt failed, for the record of its decision; on_finished() follows.
  void on_failed(RequestHandle request, std::string_view failure);
  /// The request left its worker, however it ended. `completed`: its answer reached its end. Idempotent.
  void on_finished(RequestHandle request, bool completed, TimePoint now);
  /// Null if the request has left its worker; otherwise valid until it does. Its output_tokens may lag behind while it
  /// is in a run.
  [[nodiscard]] const RoutedRequest* find(RequestHandle request) const { return requests_.find(request); }

  /// The part of Forecaster::routed_prefill_ms() that goes into what a worker has computed a moment ago, and no cache
  /// has any more where the request went; 0 without a working set.
  [[nodiscard]] double recomputed_prefill_ms() const { return recomputed_prefill_ms_; }
  /// Blocks that have to be computed again per block that is put into a cache; 0 where KV events or memory are unknown.
  [[nodiscard]] double recomputed_blocks() const { return ghosts_.recomputed(); }
  /// Whether open_working_set() can be called: Options::working_set.
  [[nodiscard]] bool has_working_set() const { return working_set_.has_value(); }
  /// What the workers' caches have to hold, as of now. Requires: `now` never decreases.
  [[nodiscard]] WorkingSet& open_working_set(TimePoint now);
  [[nodiscard]] const RecentPrompts& recent_prompts() const { return working_set_.value().recent(); }

  /// Another gateway gave a request to a worker. It counts like one's own from here on: in loads, queues, prompts under
  /// way, reused prefixes, sessions and the lengths of answers, but nothing is learned from when its tokens came. The
  /// handle is for on_first_token(), on_progress() and on_finished(). `view` is of the worker.
  [[nodiscard]] RequestHandle on_peer_routed(const PeerRequest& request, const WorkerView& view, TimePoint now);
  /// Tells `observer` of this gateway's requests from here on; null: nobody. Requires: none is at a worker.
  void tell(LoadObserver* observer) { observer_ = observer; }
  /// The requests of other gateways that are at workers.
  [[nodiscard]] std::size_t peer_requests() const { return peer_requests_; }

  /// The index and everything that may write it. Threads: its owner's, which is another thread if Options::make_gate is
  /// given. That thread then reports what it did (on_event_news()) and is asked to take wrong places back
  /// (on_wrong_place()).
  [[nodiscard]] EventIndex& event_index() { return caches_.event_index(); }
  void on_event_news(WorkerId worker, const EventNews& news);
  void on_wrong_place(std::function<void(WorkerId, kv::ExternalHash)> handler) {
    caches_.on_wrong_place(std::move(handler));
  }
  // For a caller that owns both.
  /// Applies events in order and returns how many were refused; index().counters() has the reasons.
  std::size_t on_kv_events(WorkerId worker, std::span<const kv::KvEventView> events);
  std::size_t on_kv_events(WorkerId worker, std::span<const kv::KvEvent> events);
  /// Forgets the content of the worker's cache, which is unknown from here on.
  void reset_worker(WorkerId worker) { on_event_news(worker, caches_.event_index().reset(worker)); }
  /// The worker restarted with an empty cache. Forgets what was predicted for it; its event stream, if it has one,
  /// reports the restart by itself.
  void on_worker_restarted(WorkerId worker);

  /// The id is another worker's from here on: forgets its cache, its speed, what other gateways told of requests there,
  /// and all else that is by worker. Requires: none of this gateway's requests is at the worker, and event_index() has
  /// forgotten it.
  void forget(WorkerId worker);

  void set_mode(spec::RoutingMode mode);
  [[nodiscard]] spec::RoutingMode mode() const { return mode_; }
  /// Threads: the index's owner.
  [[nodiscard]] const kv_index::KvIndex& index() const { return caches_.index(); }
  [[nodiscard]] const CacheKnowledge& caches() const { return caches_; }
  [[nodiscard]] const Forecaster& forecaster() const { return forecaster_; }
  [[nodiscard]] const LoadTracker& loads() const { return loads_; }
  /// Tokens per block of the loads and of all prompts.
  [[nodiscard]] std::uint32_t block_size() const { return block_size_; }
  [[nodiscard]] const DecisionLog& log() const { return log_; }
  [[nodiscard]] const SessionTable& sessions() const { return sessions_; }
  /// Number of requests that went to the worker of their session, and that left it, with session affinity.
  struct SessionCounts {
    std::uint64_t kept = 0;
    std::uint64_t moved = 0;
  };
  [[nodiscard]] const SessionCounts& session_counts() const { return session_counts_; }
  /// Number of decisions without a new worker that had as many requests as it may.
  [[nodiscard]] std::uint64_t held_back() const { return held_back_decisions_; }
  /// Number of decisions made in a mode.
  [[nodiscard]] std::uint64_t decisions(spec::RoutingMode mode) const {
    return decisions_[static_cast<std::size_t>(mode)];
  }

 private:
  /// Fills depths_, shared_ and reused_depths_ as if `keys` were the prompt's block hashes on every worker.
  void look_up(const RouteQuery& query, const BlockKeys& keys, const FleetView& fleet, TimePoint now);
  /// Fills them for each worker with the block hashes of its own tokenization.
  void look_up(const RouteQuery& query, const FleetView& fleet, TimePoint now);
  /// Fills usable_ with the workers of the fleet that may take the request.
  void find_usable(const RouteQuery& query, const FleetView& fleet, TimePoint now);
  /// Whether some of the workers in usable_ may have to be left out.
  struct Narrowing {
    bool short_contexts = false;
    bool new_workers = false;
  };
  /// For a request that any available worker can take, without knowing more of it than others.
  Narrowing take_available(const RouteQuery& query, const FleetView& fleet);
  /// For any other.
  Narrowing take_some(const RouteQuery& query, std::span<const WorkerView> fleet);
  // The next four change usable_.
  void leave_out_short_contexts(std::span<const WorkerView> fleet);
  void stay_with_session(const RouteQuery& query, TimePoint now);
  void leave_out_new_workers(std::span<const WorkerView> fleet);
  void replicate_hot_prefix(const RouteQuery& query);
  /// Calls visit(worker) for each usable one that may have cached something of the prompt: few of a large fleet.
  template <class Visit>
  void for_each_that_knows(const RouteQuery& query, Visit visit) const;
  /// Whether test(worker) holds for one of them; those behind it are not tested.
  template <class Test>
  [[nodiscard]] bool any_that_knows(const RouteQuery& query, Test test) const;
  /// How many candidates the record of this decision keeps.
  [[nodiscard]] std::size_t recorded() const;
  /// The most blocks of the prompt that any usable worker has cached.
  [[nodiscard]] std::uint32_t deepest_cache(const RouteQuery& query) const;
  void note_session(const RouteQuery& query, WorkerId chosen, TimePoint now);
  /// Whether prompts in flight count as cached: the published costs of the other modes count what events report.
  [[nodiscard]] bool counts_prompts_in_flight() const {
    return mode_ == spec::RoutingMode::kKv || mode_ == spec::RoutingMode::kClairvoyant;
  }
  /// How much the mean over the last decisions counts of one.
  static constexpr double kMeanShare = 1.0 / 256;
  /// Of the prompt of the last look-up, so many leading blocks are in the cache of a worker, usable or not, or are
  /// computed just now.
  [[nodiscard]] std::uint32_t deepest_anywhere() const;
  /// The prompt goes to the chosen worker; some usable one has cached so many blocks of it.
  void note_insertion(const RouteQuery& query, const Candidate& chosen, std::span<const kv::BlockHash> prompt,
                      std::uint32_t known_blocks, const FleetView& fleet);
  /// Of the prompt, so many leading blocks were computed somewhere a moment ago.
  void note_recomputed(const Candidate& chosen, std::uint32_t known_blocks, std::uint32_t prompt_tokens);
  /// KV memory of the workers that are in use.
  [[nodiscard]] std::uint64_t fleet_blocks(const FleetView& fleet);
  [[nodiscard]] bool has_affinity(const RouteQuery& query) const {
    return affinity_.form != spec::SessionAffinitySpec::Form::kOff && query.session != 0 &&
           mode_ == spec::RoutingMode::kKv;
  }
  /// Without a forecast.
  [[nodiscard]] Candidate candidate(const UsableWorker& usable, const RouteQuery& query,
                                    std::span<const WorkerView> fleet) const;
  [[nodiscard]] ForecastQuery forecast_query(const Candidate& candidate, const RouteQuery& query,
                                             std::span<const WorkerView> fleet) const;
  /// Fills candidates_ with all usable workers.
  void forecast_all(const RouteQuery& query, std::span<const WorkerView> fleet, TimePoint now);
  /// Fills candidates_, leaving out those that do not matter, and returns the position of the chosen one.
  [[nodiscard]] std::size_t choose(const RouteQuery& query, const PolicyQuery& policy_query,
                                   std::span<const WorkerView> fleet, TimePoint now);
  [[nodiscard]] AdmissionCheck::TurnedDown turned_down_request(const RouteQuery& query,
                                                               const PolicyQuery& policy_query) const;
  /// The position of the choice among the candidates that `check` admits, and leaves out the others; nothing if it
  /// admits none. Requires: all have forecasts, and `check` was asked about `turned_down`.
  [[nodiscard]] std::optional<std::size_t> choose_admitted(WorkerId turned_down, const PolicyQuery& policy_query,
                                                           AdmissionCheck& check);
  /// Candidate::affinity_ms
  [[nodiscard]] double affinity_ms(WorkerId worker) const { return session_worker_ == worker ? 0 : away_ms_; }
  [[nodiscard]] std::uint64_t displaced_blocks(WorkerId worker, std::size_t prompt_blocks,
                                               const EngineLimits& limits) const;
  void remove_peer_requests(WorkerId worker);
  /// Books the first tokens that must have come by now although nobody saw them.
  void assume_first_tokens(TimePoint now);
  /// Likewise those of requests that came to the same worker before one whose own has come.
  void assume_first_tokens_before(const RoutedRequest& request);
  void assume_first_token(RoutedRequest& request);
  void clear_cache(WorkerId worker);
  void on_worker_changed(WorkerId worker) {
    if (shortlist_) shortlist_->on_changed(worker);
  }

  std::size_t workers_;
  std::uint32_t block_size_;
  std::uint64_t seed_;
  spec::RoutingMode mode_;
  std::unique_ptr<RoutingPolicy> policy_;
  RoutedRequests requests_;
  UnseenFirstTokens unseen_;  // of one's own requests
  CacheKnowledge caches_;
  LoadTracker loads_;
  DecodeRuns runs_;
  ReusedPrefixes reused_;
  std::optional<WorkingSet> working_set_;
  double recomputed_prefill_ms_ = 0;
  double mean_waiting_ = 0;  // FoundFleet::waiting as decisions found it
  GhostCache ghosts_;
  std::uint64_t fleet_blocks_ = 0;          // of KV memory
  std::uint64_t fleet_blocks_version_ = 0;  // of the fleet that has them
  Forecaster forecaster_;
  spec::SessionAffinitySpec affinity_;
  spec::ObjectiveSpec objective_;
  SessionTable sessions_;
  SessionCounts session_counts_;
  std::uint64_t held_back_decisions_ = 0;
  ForecastSource* forecasts_;  // may be null
  std::size_t recorded_;       // Options::recorded
  DecisionLog log_;
  LoadObserver* observer_ = nullptr;  // may stay null
  std::uint64_t last_peer_request_ = 0;
  std::size_t peer_requests_ = 0;
  std::optional<KvShortlist> shortlist_;    // in large fleets
  UsableWorkers usable_;                    // scratch memory of route()
  std::vector<Candidate> candidates_;       // likewise, as are the next three, which are by WorkerId
  std::optional<WorkerId> session_worker_;  // of the last find_usable(), as the next two
  double away_ms_ = 0;                      // what it costs to leave it
  std::vector<WorkerId> held_back_;
  CacheDepths depths_;
  std::vector<std::uint32_t> shared_;
  std::vector<std::uint32_t> reused_depths_;
  std::vector<kv::KvEventView> views_;                              // scratch, of events that came as KvEvents
  std::array<std::uint64_t, spec::kRoutingModeCount> decisions_{};  // by RoutingMode
};

// The look-up of a prompt in several tokenizations has found them for the last one only.
template <class Test>
bool Router::any_that_knows(const RouteQuery& query, Test test) const {
  if (!query.otherwise.empty())
    return std::ranges::any_of(usable_.all(), [&](const UsableWorker& usable) { return test(usable.worker); });
  return std::ranges::any_of(caches_.known(),
                             [&](WorkerId worker) { return usable_.contains(worker) && test(worker); });
}

template <class Visit>
void Router::for_each_that_knows(const RouteQuery& query, Visit visit) const {
  (void)any_that_knows(query, [&](WorkerId worker) {
    visit(worker);
    return false;
  });
}

}  // namespace kvist::routing

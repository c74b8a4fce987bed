// What the workers' caches hold, for each worker by the best source that there is.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kvist/base/id.h"
#include "kvist/base/time.h"
#include "kvist/kv/block_hash.h"
#include "kvist/kv/kv_event.h"
#include "kvist/kv_index/kv_index.h"
#include "kvist/routing/cache_agreement.h"
#include "kvist/routing/event_index.h"
#include "kvist/routing/fleet_view.h"
#include "kvist/routing/predicted_index.h"
#include "kvist/routing/prefix_use.h"
#include "kvist/routing/prompts_under_way.h"
#include "kvist/routing/routed_request.h"
#include "kvist/routing/worker_lanes.h"
#include "kvist/spec/routing_spec.h"

namespace kvist::routing {

/// How much of a prompt a worker caches.
struct CacheDepth {
  /// Leading blocks; one that is only in host memory, on disk or remote counts by the weight of its medium.
  std::uint32_t blocks = 0;
  std::uint32_t held = 0;         ///< the same, but each of them counts as one
  std::uint32_t lower_tiers = 0;  ///< how many of them are outside of device memory, by the events
};

/// The same of all workers, by WorkerId, in whole lanes (WorkerLanes).
struct CacheDepths {
  explicit CacheDepths(std::size_t workers)
      : blocks(WorkerLanes::padded(workers)), held(blocks.size()), lower_tiers(blocks.size()) {}
  std::vector<std::uint32_t> blocks, held, lower_tiers;

  [[nodiscard]] CacheDepth operator[](WorkerId worker) const {
    const std::size_t i = worker.value();
    return {.blocks = blocks[i], .held = held[i], .lower_tiers = lower_tiers[i]};
  }
  void set(WorkerId worker, const CacheDepth& depth) {
    const std::size_t i = worker.value();
    blocks[i] = depth.blocks;
    held[i] = depth.held;
    lower_tiers[i] = depth.lower_tiers;
  }
};

/// How well one worker's cache is known, for metrics.
struct CacheTrustReport {
  CacheTrust trust = CacheTrust::kNone;  ///< kExact also while events are late, up to events_silent
  double events_share = 1;     ///< share of the cached tokens expected by its events that its answers confirmed, 0 to 1
  double predicted_share = 1;  ///< the same for the tokens expected by the prompts routed there
  std::uint64_t predicted_blocks = 0;
  std::uint64_t predicted_prompts = 0;
  std::uint64_t usage_reports = 0;  ///< answers that were compared with either
  std::uint64_t corrections = 0;    ///< of those, answers with less cached than expected
  std::uint64_t distrusted = 0;     ///< how often its events lost trust because answers contradicted them
  bool events_silent = false;       ///< it stores blocks, but its events have stopped
  /// The share of its latest answers' cached tokens that its events had reported: 1 if the events are exact, 0 before
  /// the first answer with cached tokens.
  double known_share = 0;
  std::uint64_t adopted_prefixes = 0;  ///< prefixes that no event reported, placed by routed prompts
};

/// There are two sources per worker: the index of its KV events, and the prompts that were routed to it. Both are kept
/// at all times, so that neither is empty when it is needed.
///  - kExact: events connected, whole, flowing and not contradicted. The index decides. Blocks of requests that
///    are in flight or ended a moment ago count too, because their events may be under way.
///  - kPredicted: the deeper of the index as it was, for two minutes after the last event, and the routed prompts, each
///    multiplied by its weight, which follows from the answers' usage (CacheAgreement).
///  - kNone: neither has any weight. The router then sees workers without caches, and so their load alone.
/// The levels only name ranges: the weights change continuously.
///
/// Threads: the router's, except for event_index(), which may have another owner (Options::make_gate). Then look-ups go
/// through a wait-free reader, and changes of the index are reported as EventNews. The report comes a little later than
/// the index shows the change, as if the event had come later.
///
/// A worker whose cache was cleared holds nothing that was routed there before, except for prompts that it may still
/// have to compute. A worker that does not report the clearing shows it by its answers: after kDenials answers in a row
/// with less than half of the predicted tokens cached, the prompts before the first of them are forgotten.
class CacheKnowledge {
 public:
  struct Options {
    std::string model;
    std::uint32_t block_size = 32;
    std::size_t workers = 0;
    spec::TierWeightsSpec tier_weights = {};
    PromptsUnderWay::MakeGate make_gate = {};  ///< given where another thread owns event_index()
  };
  /// `requests` holds the requests at the workers. Requires: it outlives this object.
  CacheKnowledge(Options options, RoutedRequests& requests);
  CacheKnowledge(const CacheKnowledge&) = delete;
  CacheKnowledge& operator=(const CacheKnowledge&) = delete;

  /// Sets the depth of every worker of the fleet. `in_flight` is, per worker, the number of leading blocks that its
  /// requests use (LoadTracker). If `with_in_flight` is false, these do not count, nor do those of requests that ended
  /// a moment ago. `besides` are made at the same time, and may be the one that fills `in_flight`.
  void match(std::span<const kv::BlockHash> prompt, const FleetView& fleet, std::span<const std::uint32_t> in_flight,
             bool with_in_flight, TimePoint now, CacheDepths& depths,
             std::initializer_list<PrefixUse::LookUp> besides = {});
  /// Of the last match(): in ascending order, the workers that may have a depth that is not 0.
  [[nodiscard]] std::span<const WorkerId> known() const { return known_; }
  /// Of the last match(): the leading blocks that the worker has computed, as far as is known, apart from requests that
  /// are there now.
  [[nodiscard]] std::uint32_t computed(WorkerId worker) const {
    const std::size_t i = worker.value();
    return std::max(by_events_[i], recently_ended_depths_[i]);
  }
  /// How well the worker's cache is known, if its event stream is exact, or is not.
  [[nodiscard]] CacheTrust trust(WorkerId worker, bool events_exact) const {
    return weights_[worker.value()].trust(events_exact);
  }
  /// Records that the request of the last match() goes to its worker. `max_blocks` is the size of its KV memory, 0 if
  /// unknown.
  void on_routed(RoutedRequest& request, std::uint32_t max_blocks, TimePoint now);
  static constexpr std::uint32_t kDenials = 3;

  /// The worker made progress. Notices if events of stored blocks were due and none came.
  void on_progress(WorkerId worker, TimePoint now);
  /// The request's prompt is computed.
  static void on_computed(RoutedRequest& request) { request.cache.computed = true; }
  /// Compares the cached tokens that the worker reports with what each source let expect.
  void on_usage(RoutedRequest& request, std::uint64_t cached_tokens);
  /// The request is about to leave its worker. `computed`: its prompt was computed there, and so were `output_tokens`
  /// tokens of an answer.
  void on_finished(const RoutedRequest& request, bool computed, std::uint64_t output_tokens, TimePoint now);

  // The same of a request that another gateway routed. Its answer's usage is not seen here, so that nothing was
  // expected of it.
  void on_peer_routed(RoutedRequest& request, std::uint32_t max_blocks, TimePoint now);
  void on_peer_finished(const RoutedRequest& request, bool computed, TimePoint now);

  /// Follows what the owner of the index did.
  void on_event_news(WorkerId worker, const EventNews& news);
  [[nodiscard]] EventIndex& event_index() { return events_; }
  /// Sets the function that asks the owner of the index to take a wrong place back (EventIndex::revoke()), if the owner
  /// is another thread.
  void on_wrong_place(std::function<void(WorkerId, kv::ExternalHash)> handler) { revoke_ = std::move(handler); }

  /// The worker restarted with an empty cache. Forgets the prompts that were routed to it. What its events reported
  /// stays: the event stream reports the restart itself, at the right place in its order.
  void on_restarted(WorkerId worker);

  /// The id belongs to another worker from here on. Before this call, EventIndex::forget() forgets what the old
  /// worker's events told. Requires: no request is at the worker.
  void forget(WorkerId worker);

  [[nodiscard]] CacheTrustReport report(WorkerId worker, bool events_exact) const;
  /// Threads: the index's owner.
  [[nodiscard]] const kv_index::KvIndex& index() const { return events_.index(); }

 private:
  struct Worker {
    CacheAgreement events;
    CacheAgreement predicted;
    bool contradicted = false;  // has hysteresis, so that the level of trust does not flap
    std::uint64_t distrusted = 0;
    std::uint64_t usage_reports = 0;
    std::uint64_t event_batches = 0;
    std::optional<TimePoint> due_since;  // blocks were stored at this time, and no event has come since
    bool late = false;                   // for over a second: what was routed counts beside the events
    bool silent = false;                 // for over five: they have stopped
    // Cached tokens of the latest answers, and the part of them that events had reported.
    double reported_tokens = 0;
    double told_tokens = 0;
    // The number of answers in a row with far less cached than predicted, and the number of the first one's prompt.
    std::uint32_t denials = 0;
    std::uint64_t first_denied = 0;
    // Incremented when a source begins anew, because answers to requests that were routed before say nothing about it.
    std::uint32_t events_run = 0;
    std::uint32_t predicted_run = 0;
  };
  // What match() needs of a worker. It is kept apart, so that a look-up in a large fleet reads little memory.
  struct Weights {
    double events = 1;  // CacheAgreement::weight() of both sources
    double predicted = 1;
    CacheTrust with_events = CacheTrust::kExact;  // while its event stream is exact
    CacheTrust without = CacheTrust::kPredicted;
    [[nodiscard]] CacheTrust trust(bool events_exact) const { return events_exact ? with_events : without; }
  };
  // What lower tiers take from by_events_, in blocks; only for workers with blocks there, few or none as a rule.
  struct LowerTiers {
    WorkerId worker;
    std::uint32_t blocks = 0;
    std::uint32_t discount = 0;
  };
  // Requires: called after each change of what the weights follow from.
  void weigh(WorkerId id);
  void weigh_prediction(const RoutedRequest& request, std::uint64_t by_prediction, std::uint64_t cached_tokens);
  [[nodiscard]] bool blocks_were_due(const RoutedRequest& request, std::uint64_t output_tokens) const;
  [[nodiscard]] CacheDepth depth(std::size_t worker, std::uint32_t in_flight, bool with_in_flight,
                                 const LowerTiers& below) const;
  void look_up(std::span<const kv::BlockHash> prompt);
  void take_at_word(std::span<const std::uint32_t> in_flight, bool with_in_flight, CacheDepths& depths);
  void find_known();
  void follow(const FleetView& fleet);
  void note(std::size_t worker, std::uint8_t bit, bool is_so);
  void weigh_lower_tiers(std::span<const kv_index::LowerTierMatch> found);
  void forget_routed(WorkerId id);
  void keep_uncomputed(WorkerId id);
  void begin_events_anew(WorkerId id);

  std::uint32_t block_size_;
  spec::TierWeightsSpec tier_weights_;
  PromptsUnderWay under_way_;
  EventIndex events_;
  std::optional<kv_index::KvIndex::Reader> reader_;  // where another thread writes the index
  std::function<void(WorkerId, kv::ExternalHash)> revoke_;
  PredictedIndex routed_;
  PredictedIndex recently_ended_;  // requests that ended a moment ago, whose last events may be under way
  std::vector<Worker> workers_;    // by WorkerId, as are the next
  std::vector<Weights> weights_;
  std::vector<TimePoint> heard_;        // when the worker's last events came; the latest of all: since the last look-up
  std::vector<WorkerId> heard_lately_;  // those
  // Whether the worker's events are exact, as of fleet_version_, and whether by the weights they are taken at their
  // word. With both, a look-up needs nothing else of it, so that in a large fleet it reads little memory.
  static constexpr std::uint8_t kEventsExact = 1, kTakenAtWord = 2, kSure = 3;
  std::vector<std::uint8_t> sure_;
  std::size_t unsure_;  // how many are not kSure
  std::uint64_t fleet_version_ = 0;
  RoutedRequests* requests_;
  // Results of the last match(), by WorkerId.
  std::vector<std::uint32_t> by_events_;
  std::vector<std::uint32_t> by_prediction_;
  std::vector<std::uint32_t> recently_ended_depths_;
  std::vector<std::uint32_t> any_depth_;  // scratch memory: not 0 where one of the three above or `in_flight` is not
  std::vector<WorkerId> known_;
  std::vector<LowerTiers> lower_tiers_;  // in ascending order of worker
  TimePoint now_;                        // the time of the last call that had one
};

}  // namespace kvist::routing

// What the workers' caches hold, each from the best source there is for it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kvist/base/id.h"
#include "kvist/base/time.h"
#include "kvist/kv/block_hash.h"
#include "kvist/kv/kv_event.h"
#include "kvist/kv_index/kv_index.h"
#include "kvist/routing/adopted_prefixes.h"
#include "kvist/routing/cache_agreement.h"
#include "kvist/routing/predicted_index.h"
#include "kvist/routing/prefix_use.h"
#include "kvist/routing/routed_request.h"
#include "kvist/routing/worker_view.h"

namespace kvist::routing {

/// How much of a prompt a worker caches.
struct CacheDepth {
  std::uint32_t blocks = 0;  ///< leading blocks
  CacheTrust trust = CacheTrust::kNone;
};

/// How well one worker's cache is known, for metrics.
struct CacheTrustReport {
  CacheTrust trust = CacheTrust::kNone;
  double events_share = 1;     ///< of the cached tokens its events let expect, reported by its answers; 0 to 1
  double predicted_share = 1;  ///< the same of those that the prompts routed there let expect
  std::uint64_t predicted_blocks = 0;
  std::uint64_t predicted_prompts = 0;
  std::uint64_t usage_reports = 0;  ///< answers that said something about either
  std::uint64_t corrections = 0;    ///< of those, with less than expected
  std::uint64_t distrusted = 0;  ///< times its answers contradicted its events for so long that they lost their trust
  bool events_silent = false;    ///< it stored blocks, but its events have stopped
  /// Of the cached tokens that its latest answers reported, the share that its events had told of: 1 where they are
  /// exact, 0 before such an answer.
  double known_share = 0;
  std::uint64_t adopted_prefixes = 0;  ///< placed by routed prompts, as no event told of them
};

/// There are two sources per worker: the index of its KV events, and the prompts that were routed to it. Both are kept
/// at all times, so that neither is empty when it is needed.
///  - kExact: events connected, whole, flowing and not contradicted. The index decides. Blocks of requests that
///    are in flight or ended a moment ago count too, because their events may be under way.
///  - kPredicted: the deeper of the index as it was and the routed prompts, each times its weight, which follows from
///    the answers' usage (CacheAgreement).
///  - kNone: neither has any weight. The router then sees workers without caches, and so their load alone.
/// The levels only name ranges: the weights change continuously. Threads: the router's.
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
  };
  /// `requests`: those at the workers; outlives it.
  CacheKnowledge(Options options, RoutedRequests& requests);

  /// depths[w] for every worker of the fleet. `in_flight`: leading blocks that requests on it use (LoadTracker); not
  /// counted, nor those that ended a moment ago, where `with_in_flight` is false.
  void match(std::span<const kv::BlockHash> prompt, std::span<const WorkerView> fleet,
             std::span<const std::uint32_t> in_flight, bool with_in_flight, TimePoint now,
             std::span<CacheDepth> depths);
  /// Records that the request of the last match() goes to its worker. `max_blocks`: of its KV memory; 0 if unknown.
  void on_routed(RoutedRequest& request, std::uint32_t max_blocks, TimePoint now);
  static constexpr std::uint32_t kDenials = 3;

  /// The worker made progress. If events of stored blocks were due and none came, this notices it.
  void on_progress(WorkerId worker, TimePoint now);
  /// The request's prompt is computed.
  static void on_computed(RoutedRequest& request) { request.cache.computed = true; }
  /// Takes what the worker reports of the request's prompt.
  void on_usage(RoutedRequest& request, std::uint64_t cached_tokens);
  /// The request is about to leave its worker; `computed`: its prompt was computed there, and so many tokens of an
  /// answer.
  void on_finished(const RoutedRequest& request, bool computed, std::uint64_t output_tokens, TimePoint now);

  /// Prefetches what events of a worker will need soon.
  void prefetch_events(WorkerId worker) const { index_.prefetch(worker); }
  /// Applies events and returns how many were refused.
  std::size_t on_kv_events(WorkerId worker, std::span<const kv::KvEvent> events);
  /// The event stream begins anew. What it told is void, and so is any contradiction of it, including those by answers
  /// that are under way.
  void reset_events(WorkerId worker);
  /// The worker's cache is empty: forgets the prompts that were routed to it and what was expected by them. Its events
  /// tell of a restart themselves, in their order.
  void on_restarted(WorkerId worker);

  [[nodiscard]] CacheTrustReport report(WorkerId worker, bool events_exact) const;
  [[nodiscard]] const kv_index::KvIndex& index() const { return index_; }

 private:
  struct Worker {
    CacheAgreement events;
    CacheAgreement predicted;
    bool contradicted = false;  // with hysteresis, so that the level does not flap
    std::uint64_t distrusted = 0;
    std::uint64_t usage_reports = 0;
    std::uint64_t event_batches = 0;
    std::optional<TimePoint> due_since;  // blocks were stored, no event came since
    bool silent = false;
    bool orphans = false;  // events may have parents that none told of
    // Cached tokens of the latest answers, and of those the ones that events had told of.
    double reported_tokens = 0;
    double told_tokens = 0;
    // Answers in a row with far less cached than predicted, and the first one's prompt.
    std::uint32_t denials = 0;
    std::uint64_t first_denied = 0;
    // Counted up when a source begins anew: what it let expect before says nothing about it.
    std::uint32_t events_run = 0;
    std::uint32_t predicted_run = 0;
  };
  [[nodiscard]] CacheTrust trust(const Worker& worker, bool events_exact) const;
  void weigh_prediction(const RoutedRequest& request, std::uint64_t by_prediction, std::uint64_t cached_tokens);
  [[nodiscard]] bool blocks_were_due(const RoutedRequest& request, std::uint64_t output_tokens) const;
  [[nodiscard]] std::size_t apply_one_by_one(WorkerId id, std::span<const kv::KvEvent> events);
  void place(WorkerId id, const kv::BlockStored& event);
  void check_adopted(const RoutedRequest& request);
  void on_cleared(WorkerId id);
  void forget_routed(WorkerId id);
  void begin_events_anew(WorkerId id);

  std::uint32_t block_size_;
  kv_index::KvIndex index_;
  AdoptedPrefixes adopted_;
  PredictedIndex routed_;
  PredictedIndex settling_;      // of requests that ended a moment ago: their last events may be under way
  std::vector<Worker> workers_;  // by WorkerId
  RoutedRequests* requests_;
  // By WorkerId, of the last match().
  std::vector<std::uint32_t> by_events_;
  std::vector<std::uint32_t> by_prediction_;
  std::vector<std::uint32_t> settling_depths_;
  TimePoint now_;  // of the last call that had a time
};

}  // namespace kvist::routing

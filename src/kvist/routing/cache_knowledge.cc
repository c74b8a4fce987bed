#include "kvist/routing/cache_knowledge.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "kvist/base/check.h"

namespace kvist::routing {
namespace {

// How long a routed prompt counts as cached: Dynamo's default for workers without events. And how long the index of
// events that are not exact counts after the last of them: a worker whose publisher is gone may have restarted.
constexpr auto kPredictedTtl = std::chrono::seconds(120);
// The longest time from the end of a request to its last KV event: a step and the network, and as much again for a busy
// gateway.
constexpr auto kRecentlyEndedTime = std::chrono::seconds(1);
constexpr std::size_t kRecentlyEndedBytes = 32U << 20;
// When fewer than the first share of the expected tokens are reported as cached, events count as contradicted; above
// the second share they no longer do.
constexpr double kContradicted = 0.5;
constexpr double kAgreedAgain = 0.75;
// An answer denies a prediction if it reports less than this share of the predicted tokens.
constexpr double kDenied = 0.5;
// By what factor the older answers' part in known_share shrinks with each new one.
constexpr double kKeptOfTold = 0.9;
// Sums of weights that come to a whole number of blocks are meant to be one.
constexpr double kRoundingError = 1e-6;
// When events are later than this, what was routed counts beside them.
constexpr auto kLate = std::chrono::seconds(1);
// And when they are later than this, they have stopped, which is told. vLLM sends them from a thread of its own; where
// the machine was busy they were once more than a second late.
constexpr auto kSilence = std::chrono::seconds(5);

std::uint32_t scaled(std::uint32_t blocks, double weight) {
  return static_cast<std::uint32_t>(static_cast<double>(blocks) * weight);
}

// The last prompt token is always computed, however much is cached.
std::uint64_t expected_tokens(std::uint32_t blocks, std::uint32_t prompt_tokens, std::uint32_t block_size) {
  if (prompt_tokens == 0) return 0;
  return std::uint64_t{std::min(blocks, (prompt_tokens - 1) / block_size)} * block_size;
}

}  // namespace

CacheKnowledge::CacheKnowledge(Options options, RoutedRequests& requests)
    : block_size_(options.block_size),
      tier_weights_(options.tier_weights),
      under_way_(options.workers, options.make_gate),
      events_({.model = std::move(options.model), .block_size = options.block_size, .workers = options.workers},
              under_way_),
      revoke_([this](WorkerId worker, kv::ExternalHash parent) { events_.revoke(worker, parent); }),
      routed_({.ttl = kPredictedTtl}, options.workers),
      recently_ended_({.ttl = kRecentlyEndedTime, .max_bytes = kRecentlyEndedBytes}, options.workers),
      workers_(options.workers),
      weights_(options.workers),
      heard_(options.workers),
      sure_(options.workers, kTakenAtWord),
      unsure_(options.workers),
      requests_(&requests),
      by_events_(options.workers),
      by_prediction_(options.workers),
      recently_ended_depths_(options.workers) {
  if (options.make_gate) reader_.emplace(events_.make_reader());
}

void CacheKnowledge::weigh(WorkerId id) {
  const Worker& worker = workers_[id.value()];
  Weights& weights = weights_[id.value()];
  weights.events = worker.events.weight();
  weights.predicted = worker.predicted.weight();
  weights.without = weights.predicted > 0 || weights.events > 0 ? CacheTrust::kPredicted : CacheTrust::kNone;
  weights.with_events = worker.contradicted || worker.late ? weights.without : CacheTrust::kExact;
  note(id.value(), kTakenAtWord, weights.events == 1 && weights.with_events == CacheTrust::kExact);
}

inline CacheDepth CacheKnowledge::depth(std::size_t i, std::uint32_t in_flight, bool with_in_flight,
                                        const LowerTiers& below) const {
  const Weights& weights = weights_[i];
  const bool is_stale = (sure_[i] & kEventsExact) == 0 && now_ - heard_[i] > kPredictedTtl;
  const double by_events = is_stale ? 0 : weights.events;
  CacheDepth depth{.held = scaled(by_events_[i], by_events), .lower_tiers = is_stale ? 0 : below.blocks};
  depth.blocks = below.discount == 0 ? depth.held : scaled(by_events_[i] - below.discount, by_events);
  if (weights.trust((sure_[i] & kEventsExact) != 0) == CacheTrust::kExact) {
    if (with_in_flight) depth.blocks = std::max({depth.blocks, in_flight, recently_ended_depths_[i]});
  } else if (by_prediction_[i] > 0) {
    depth.blocks = std::max(depth.blocks, scaled(by_prediction_[i], weights.predicted));
  }
  depth.held = std::max(depth.held, depth.blocks);
  return depth;
}

void CacheKnowledge::match(std::span<const kv::BlockHash> prompt, const FleetView& fleet,
                           std::span<const std::uint32_t> in_flight, bool with_in_flight, TimePoint now,
                           CacheDepths& depths, std::initializer_list<PrefixUse::LookUp> besides) {
  if (now_ == TimePoint()) std::ranges::fill(heard_, now);  // when the first events came is not known
  for (const WorkerId worker : heard_lately_) heard_[worker.value()] = now;
  heard_lately_.clear();
  now_ = now;
  routed_.expire(now);
  recently_ended_.expire(now);
  look_up(prompt);
  std::array<PrefixUse::LookUp, PrefixUse::kMostLookUps> look_ups = {routed_.look_up(by_prediction_),
                                                                     recently_ended_.look_up(recently_ended_depths_)};
  KVIST_CHECK(besides.size() + 2 <= look_ups.size(), "there is room for the look-ups of others");
  std::ranges::copy(besides, look_ups.begin() + 2);
  PrefixUse::match(prompt, std::span(look_ups).first(besides.size() + 2));
  take_at_word(in_flight, with_in_flight, depths);
  find_known();
  follow(fleet);
  if (unsure_ == 0 && lower_tiers_.empty()) return;
  auto lower = lower_tiers_.begin();
  constexpr std::size_t kAhead = 8;
  for (std::size_t k = 0; k < known_.size(); ++k) {
    if (const std::size_t ahead = known_[std::min(k + kAhead, known_.size() - 1)].value(); sure_[ahead] != kSure)
      __builtin_prefetch(&weights_[ahead]);
    const WorkerId worker = known_[k];
    const std::size_t i = worker.value();
    const bool has_lower = lower != lower_tiers_.end() && lower->worker == worker;
    if (sure_[i] == kSure && !has_lower) continue;
    depths.set(worker, depth(i, in_flight[i], with_in_flight, has_lower ? *lower++ : LowerTiers()));
  }
}

// Depths as if all events were exact and every block in device memory, as it nearly always is; and whether there are
// any.
void CacheKnowledge::take_at_word(std::span<const std::uint32_t> in_flight, bool with_in_flight, CacheDepths& depths) {
  const std::size_t workers = by_events_.size();
  any_depth_.resize(workers);
  const auto take = [&](std::size_t at, auto load, auto store, auto highest) {
    const auto events = load(by_events_.data() + at);
    const auto ended = load(recently_ended_depths_.data() + at);
    const auto flying = load(in_flight.data() + at);
    const auto blocks = with_in_flight ? highest(events, highest(flying, ended)) : events;
    store(depths.blocks.data() + at, blocks);
    store(depths.held.data() + at, blocks);
    store(any_depth_.data() + at, events | ended | flying | load(by_prediction_.data() + at));
  };
  std::size_t at = 0;
  for (; at + WorkerLanes::kLanes <= workers; at += WorkerLanes::kLanes) {
    take(
        at, [](const std::uint32_t* from) { return WorkerLanes::load(from); },
        [](std::uint32_t* to, const auto& lanes) { WorkerLanes::store(to, lanes); },
        [](const auto& a, const auto& b) { return WorkerLanes::highest(a, b); });
  }
  for (; at < workers; ++at) {
    take(
        at, [](const std::uint32_t* from) { return *from; }, [](std::uint32_t* to, std::uint32_t one) { *to = one; },
        [](std::uint32_t a, std::uint32_t b) { return std::max(a, b); });
  }
  std::ranges::fill(depths.lower_tiers, 0U);
}

// Most workers of a large fleet know nothing of a prompt. Which ones do is not foreseeable, so they are found without a
// branch for each.
void CacheKnowledge::find_known() {
  const std::size_t workers = any_depth_.size();
  known_.resize(workers);
  std::size_t count = 0;
  for (std::size_t i = 0; i < workers; ++i) {
    known_[count] = WorkerId(static_cast<std::uint32_t>(i));
    count += any_depth_[i] == 0 ? 0 : 1;
  }
  known_.resize(count);
}

void CacheKnowledge::follow(const FleetView& fleet) {
  if (fleet.is_still(fleet_version_)) return;
  for (std::size_t i = 0; i < sure_.size(); ++i) note(i, kEventsExact, fleet[i].events_exact);
  fleet_version_ = fleet.version();
}

void CacheKnowledge::note(std::size_t worker, std::uint8_t bit, bool is_so) {
  std::uint8_t& bits = sure_[worker];
  unsure_ -= bits == kSure ? 0 : 1;
  bits = static_cast<std::uint8_t>(is_so ? bits | bit : bits & ~bit);
  unsure_ += bits == kSure ? 0 : 1;
}

void CacheKnowledge::look_up(std::span<const kv::BlockHash> prompt) {
  if (!reader_) {
    events_.index().match(prompt, by_events_);
    return weigh_lower_tiers(events_.index().lower_tiers());
  }
  std::ranges::fill(by_events_, 0U);
  for (const kv_index::WorkerMatch& match : reader_->match(prompt)) {
    if (match.worker.value() < by_events_.size()) by_events_[match.worker.value()] = match.blocks;
  }
  weigh_lower_tiers(reader_->lower_tiers());
}

// A block that has to be loaded saves a part of its computation.
void CacheKnowledge::weigh_lower_tiers(std::span<const kv_index::LowerTierMatch> found) {
  lower_tiers_.clear();
  for (const kv_index::LowerTierMatch& match : found) {
    const auto [host, disk, remote] = match.blocks;
    const double lost =
        host * (1 - tier_weights_.cpu) + disk * (1 - tier_weights_.disk) + remote * (1 - tier_weights_.remote);
    lower_tiers_.push_back({.worker = match.worker,
                            .blocks = host + disk + remote,
                            .discount = static_cast<std::uint32_t>(std::ceil(lost - kRoundingError))});
  }
}

void CacheKnowledge::on_routed(RoutedRequest& request, std::uint32_t max_blocks, TimePoint now) {
  const std::size_t worker = request.worker.value();
  const Worker& known = workers_[worker];
  request.cache = {.by_events = expected_tokens(by_events_[worker], request.prompt_tokens, block_size_),
                   .by_prediction = expected_tokens(by_prediction_[worker], request.prompt_tokens, block_size_),
                   .number = routed_.insert(request.worker, request.blocks, max_blocks, now),
                   .event_batches = known.event_batches,
                   .under_way = under_way_.add(request.worker, {.request = request.id, .keys = request.blocks}),
                   .events_run = known.events_run,
                   .predicted_run = known.predicted_run};
}

void CacheKnowledge::on_peer_routed(RoutedRequest& request, std::uint32_t max_blocks, TimePoint now) {
  request.cache = {.number = routed_.insert(request.worker, request.blocks, max_blocks, now)};
}

void CacheKnowledge::on_peer_finished(const RoutedRequest& request, bool computed, TimePoint now) {
  if (!computed) return routed_.take_back(request.worker, request.cache.number);
  recently_ended_.insert(request.worker, request.blocks, 0, now);
}

void CacheKnowledge::on_progress(WorkerId id, TimePoint now) {
  Worker& worker = workers_[id.value()];
  if (worker.silent || !worker.due_since || now - *worker.due_since <= kLate) return;
  worker.silent = now - *worker.due_since > kSilence;
  if (!std::exchange(worker.late, true)) weigh(id);
}

void CacheKnowledge::on_usage(RoutedRequest& request, std::uint64_t cached_tokens) {
  request.cache.cached_tokens = cached_tokens;
  const auto misplaced = under_way_.on_usage(request.worker, request.cache.under_way, cached_tokens / block_size_);
  if (misplaced) revoke_(request.worker, *misplaced);
  const CacheExpectation& expected = request.cache;
  Worker& worker = workers_[request.worker.value()];
  const bool same_events = expected.events_run == worker.events_run;
  const std::uint64_t by_events = same_events ? expected.by_events : 0;
  const std::uint64_t by_prediction = expected.predicted_run == worker.predicted_run ? expected.by_prediction : 0;
  if (by_events + by_prediction > 0) ++worker.usage_reports;
  if (same_events && cached_tokens > 0) {
    worker.reported_tokens = kKeptOfTold * worker.reported_tokens + static_cast<double>(cached_tokens);
    worker.told_tokens = kKeptOfTold * worker.told_tokens + static_cast<double>(std::min(by_events, cached_tokens));
  }
  worker.events.observe(by_events, cached_tokens);
  worker.predicted.observe(by_prediction, cached_tokens);
  weigh_prediction(request, by_prediction, cached_tokens);
  const double share = worker.events.share();
  if (!worker.contradicted && share < kContradicted) {
    worker.contradicted = true;
    ++worker.distrusted;
  } else if (worker.contradicted && share > kAgreedAgain) {
    worker.contradicted = false;
  }
  weigh(request.worker);
}

// Looks for a cache that was cleared without an event: then every answer reports less than predicted, whatever its
// prompt.
void CacheKnowledge::weigh_prediction(const RoutedRequest& request, std::uint64_t by_prediction,
                                      std::uint64_t cached_tokens) {
  if (by_prediction == 0) return;
  const WorkerId id = request.worker;
  const std::uint64_t number = request.cache.number;
  Worker& worker = workers_[id.value()];
  if (static_cast<double>(cached_tokens) >= kDenied * static_cast<double>(by_prediction)) {
    worker.denials = 0;
    return;
  }
  if (worker.denials++ == 0 || number < worker.first_denied) worker.first_denied = number;
  if (worker.denials < kDenials) return;
  routed_.drop_before(id, worker.first_denied);
  worker.denials = 0;
  ++worker.predicted_run;
}

void CacheKnowledge::on_finished(const RoutedRequest& request, bool computed, std::uint64_t output_tokens,
                                 TimePoint now) {
  now_ = now;
  under_way_.remove(request.worker, request.cache.under_way);
  if (!computed) return routed_.take_back(request.worker, request.cache.number);
  Worker& worker = workers_[request.worker.value()];
  recently_ended_.insert(request.worker, request.blocks, 0, now);
  if (!worker.due_since && blocks_were_due(request, output_tokens)) worker.due_since = now;
  on_progress(request.worker, now);
}

// Whether the request must have caused an event, while no event came from its worker for any request. Blocks that were
// found cached cause no event. Behind a newly computed block, all blocks are new.
// Requires: the request's prompt was computed.
bool CacheKnowledge::blocks_were_due(const RoutedRequest& request, std::uint64_t output_tokens) const {
  const CacheExpectation& expected = request.cache;
  const Worker& worker = workers_[request.worker.value()];
  if (worker.event_batches != expected.event_batches || expected.events_run != worker.events_run) return false;
  if (request.prompt_tokens == 0) return false;
  if (expected.cached_tokens) {
    const std::uint64_t computed = (request.prompt_tokens - 1) / block_size_;
    return computed > *expected.cached_tokens / block_size_;
  }
  // The engine never computes the KV cache of an answer's last token.
  const std::uint64_t all_tokens = request.prompt_tokens + std::max<std::uint64_t>(output_tokens, 1) - 1;
  return all_tokens / block_size_ > request.prompt_tokens / block_size_;
}

void CacheKnowledge::on_event_news(WorkerId id, const EventNews& news) {
  Worker& worker = workers_[id.value()];
  if (news.batches > 0) {
    // When that was is known with the next look-up, which may be much later than the last one.
    if (std::exchange(heard_[id.value()], TimePoint::max()) != TimePoint::max()) heard_lately_.push_back(id);
    worker.event_batches += news.batches;
    worker.due_since.reset();
    worker.late = worker.silent = false;
  }
  if (news.begun_anew) begin_events_anew(id);
  if (news.cache_emptied) forget_routed(id);
  if (news.cache_emptied && news.keeps_uncomputed) keep_uncomputed(id);
  weigh(id);
}

// What was routed is gone, except for prompts that are still to be computed.
void CacheKnowledge::keep_uncomputed(WorkerId id) {
  std::vector<RoutedRequest*> uncomputed;
  requests_->for_each([&](RoutedRequest& request) {
    if (request.worker == id && !request.cache.computed) uncomputed.push_back(&request);
  });
  std::ranges::sort(uncomputed, {}, [](const RoutedRequest* request) { return request->id; });
  for (RoutedRequest* const request : uncomputed) request->cache.number = routed_.insert(id, request->blocks, 0, now_);
}

void CacheKnowledge::begin_events_anew(WorkerId id) {
  Worker& worker = workers_[id.value()];
  worker.events.restart();
  ++worker.events_run;
  worker.contradicted = false;
  worker.due_since.reset();
  worker.late = worker.silent = false;
  worker.reported_tokens = worker.told_tokens = 0;
}

void CacheKnowledge::forget_routed(WorkerId id) {
  routed_.clear(id);
  recently_ended_.clear(id);
  Worker& worker = workers_[id.value()];
  worker.predicted.restart();
  worker.denials = 0;
  ++worker.predicted_run;
}

void CacheKnowledge::on_restarted(WorkerId id) {
  forget_routed(id);
  weigh(id);
}

void CacheKnowledge::forget(WorkerId id) {
  forget_routed(id);
  workers_.at(id.value()) = {};
  weigh(id);
}

CacheTrustReport CacheKnowledge::report(WorkerId id, bool events_exact) const {
  const Worker& worker = workers_.at(id.value());
  const bool only_late = worker.late && !worker.silent && !worker.contradicted && events_exact;
  return {.trust = only_late ? CacheTrust::kExact : weights_.at(id.value()).trust(events_exact),
          .events_share = worker.events.share(),
          .predicted_share = worker.predicted.share(),
          .predicted_blocks = routed_.blocks(id),
          .predicted_prompts = routed_.prompts(id),
          .usage_reports = worker.usage_reports,
          .corrections = worker.events.corrections() + worker.predicted.corrections(),
          .distrusted = worker.distrusted,
          .events_silent = worker.silent,
          .known_share = events_exact                 ? 1
                         : worker.reported_tokens > 0 ? worker.told_tokens / worker.reported_tokens
                                                      : 0,
          .adopted_prefixes = events_.adopted_prefixes(id)};
}

}  // namespace kvist::routing

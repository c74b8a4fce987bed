#include "kvist/routing/router.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "kvist/base/check.h"

namespace kvist::routing {
namespace {

/// If there are at most so many usable workers, the record of a decision keeps all, so that it can be replayed; of more
/// it keeps the best, and an idle one (DecisionLog).
constexpr std::size_t kAllRecorded = 64;
constexpr std::size_t kBestRecorded = 8;
/// With up to so many workers, forecasting all of them takes no longer than finding out which ones need no forecast.
constexpr std::size_t kSmallFleet = 32;

// An engine always computes the last prompt token, because the first output token follows from it. So a prompt that is
// cached completely saves one block less.
std::uint32_t usable_cached_tokens(std::uint32_t cached_blocks, std::uint32_t prompt_tokens, std::uint32_t block_size) {
  if (prompt_tokens == 0) return 0;
  return std::min(cached_blocks, (prompt_tokens - 1) / block_size) * block_size;
}

// A prompt in the tokenization of one worker.
struct PromptView {
  std::uint32_t tokens = 0;
  const BlockKeys* keys = nullptr;
};

PromptView as_sent(const RouteQuery& query) {
  return {.tokens = query.prompt_tokens, .keys = &query.blocks};
}

PromptView as_read_by(const WorkerView& worker, const RouteQuery& query) {
  for (const PromptKeys& other : query.otherwise)
    if (other.reading == worker.reading) return {.tokens = other.prompt_tokens, .keys = &other.blocks};
  return as_sent(query);
}

// A worker needs room for one token of the answer.
bool fits(const WorkerView& worker, std::uint32_t prompt_tokens) {
  return prompt_tokens <= worker.max_model_len - 1;  // 0, which stands for any length, becomes the largest number
}

std::string none_can_take(const RouteQuery& query, std::span<const WorkerView> fleet) {
  const auto workers = std::ranges::count(fleet, false, &WorkerView::vacant);
  const std::string_view tried = query.excluded.empty() ? "" : " (some were tried before)";
  if (query.adapter.empty()) return fmt::format("none of the {} workers can take the request now{}", workers, tried);
  const auto with = std::ranges::count_if(fleet, [&](const WorkerView& w) { return w.has_adapter(query.adapter); });
  return fmt::format("none of the {} workers that have the adapter \"{}\" can take the request now{}", with,
                     query.adapter, tried);
}

// The workers of least cost behind the chosen one. Those of equal cost are in the order of their load, then of their
// ids.
std::vector<WorkerId> next_best(std::span<const Candidate> candidates, std::size_t chosen, std::size_t most) {
  std::vector<WorkerId> workers;
  if (most == 0) return workers;
  std::vector<const Candidate*> others;
  for (std::size_t i = 0; i < candidates.size(); ++i)
    if (i != chosen && std::isfinite(candidates[i].cost)) others.push_back(&candidates[i]);
  std::ranges::sort(others, {},
                    [](const Candidate* c) { return std::tuple(c->cost, c->load.requests, c->worker.value()); });
  for (const Candidate* const other : std::span(others).first(std::min(most, others.size())))
    workers.push_back(other->worker);
  return workers;
}

// Policies compare all workers by one prompt length. It is the longest, so that no worker's cached tokens exceed it.
std::uint32_t longest(const RouteQuery& query) {
  std::uint32_t tokens = query.prompt_tokens;
  for (const PromptKeys& other : query.otherwise) tokens = std::max(tokens, other.prompt_tokens);
  return tokens;
}

}  // namespace

Router::Router(Options options)
    : workers_(options.workers),
      block_size_(options.block_size),
      seed_(options.seed),
      mode_(options.mode),
      policy_(make_policy(options.mode, options.seed)),
      unseen_(options.workers),
      caches_({.model = std::move(options.model),
               .block_size = options.block_size,
               .workers = options.workers,
               .tier_weights = options.tier_weights,
               .make_gate = std::move(options.make_gate)},
              requests_),
      loads_(options.workers),
      runs_(options.workers),
      reused_(options.workers),
      ghosts_(options.workers, options.sample_key),
      forecaster_(loads_, options.workers, options.latency_prior, options.block_size),
      affinity_(options.session_affinity),
      objective_(options.objective),
      sessions_(options.session_affinity),
      forecasts_(options.forecasts),
      recorded_(options.recorded),
      log_({.candidates = recorded_ > 0 ? recorded_ : kAllRecorded}),
      usable_(options.workers),
      depths_(options.workers),
      shared_(options.workers),
      reused_depths_(options.workers) {
  if (options.working_set) working_set_.emplace(workers_);
  if (options.shortlist && workers_ > kSmallFleet)
    shortlist_.emplace(forecaster_, CostFloor(forecaster_, loads_, workers_, options.latency_prior), workers_);
}

Result<Decision> Router::route(const RouteQuery& query, const FleetView& fleet, TimePoint now, AdmissionCheck* check) {
  KVIST_CHECK(fleet.size() == workers_, "the fleet has as many workers as the router was made for");
  assume_first_tokens(now);
  find_usable(query, fleet, now);
  if (usable_.empty()) return fail(ErrorCode::kUnavailable, none_can_take(query, fleet));
  const auto blocks = view(query.blocks);
  const PolicyQuery policy_query{.request = query.request,
                                 .prompt_tokens = longest(query),
                                 .block_size = block_size_,
                                 .blocks = blocks.first(std::min(blocks.size(), kPolicyBlocks)),
                                 .session = query.session,
                                 .ttft_weight = objective_.ttft,
                                 .in_transit = forecaster_.in_transit(now) / static_cast<double>(usable_.size()),
                                 .recomputed = ghosts_.recomputed(),
                                 .mean_waiting = mean_waiting_};
  std::uint64_t policy_state = policy_->state();
  std::size_t usable = usable_.size();
  const std::uint32_t known = deepest_cache(query);
  std::size_t position = choose(query, policy_query, fleet, now);
  const double waiting = policy_->found().value_or(FoundFleet{}).waiting;
  if (check != nullptr && !check->admits(candidates_[position])) {
    policy_state = policy_->state();
    const WorkerId turned_down = candidates_[position].worker;
    if (candidates_.size() < usable) forecast_all(query, fleet, now);  // who was left out may have no queue
    check->on_turned_down(turned_down_request(query, policy_query));
    const std::size_t forecast = candidates_.size();
    const auto admitted = choose_admitted(turned_down, policy_query, *check);
    if (!admitted) return fail(ErrorCode::kResourceExhausted, "the request would wait too long at every worker");
    position = *admitted;
    usable -= forecast - candidates_.size();  // the record is of the choice among those that are admitted
  }
  const Candidate& chosen = candidates_[position];
  held_back_decisions_ += held_back_.empty() ? 0 : 1;
  const PromptView prompt = as_read_by(fleet[chosen.worker.value()], query);
  const std::uint32_t held = usable_cached_tokens(depths_[chosen.worker].held, prompt.tokens, block_size_);
  Decision decision{.worker = chosen.worker,
                    .mode = mode_,
                    .predicted_cached_tokens = held,
                    .forecast_ttft_ms = chosen.forecast.ttft_ms,
                    .forecast_wait_ms = chosen.forecast.slot_wait_ms + chosen.forecast.queue_ms,
                    .reason = policy_->fell_back() ? DecisionReason::kSafetyNet : DecisionReason::kPolicy,
                    .at = now,
                    .fallbacks = next_best(candidates_, position, query.fallbacks)};
  const std::uint64_t number = log_.on_decided({.query = policy_query,
                                                .name = query.name,
                                                .prompt_blocks = static_cast<std::uint32_t>(blocks.size()),
                                                .excluded = query.excluded,
                                                .adapter = query.adapter,
                                                .session_worker = session_worker_,
                                                .held_back = held_back_,
                                                .mode = mode_,
                                                .seed = seed_,
                                                .policy_state = policy_state,
                                                .candidates = candidates_,
                                                .chosen = position,
                                                .left_out = usable - candidates_.size(),
                                                .fleet = policy_->found(),
                                                .most_kept = recorded(),
                                                .reason = decision.reason,
                                                .at = now});
  const std::uint32_t uncached = prompt.tokens - chosen.cached_tokens;
  // CacheKnowledge::on_routed() uses the last look-up, so the last one has to be in the chosen worker's tokenization.
  if (!query.otherwise.empty()) look_up(query, *prompt.keys, fleet, now);
  decision.request = requests_.insert({.id = query.request,
                                       .worker = chosen.worker,
                                       .prompt_tokens = prompt.tokens,
                                       .uncached_tokens = uncached,
                                       .predicted_cached_tokens = held,
                                       .new_blocks = chosen.new_blocks,
                                       .streams = query.streams,
                                       .choices = std::max(1U, query.choices),
                                       .blocks = *prompt.keys,
                                       .decision = number});
  RoutedRequest& routed = *requests_.find(decision.request);
  routed.reuse = reused_.add(chosen.worker, *prompt.keys, known, now);
  mean_waiting_ += kMeanShare * (waiting - mean_waiting_);
  note_insertion(query, chosen, view(*prompt.keys), known, fleet);
  if (working_set_) {
    const std::uint32_t computed_lately = working_set_->begin(chosen.worker, *prompt.keys, now);
    if (query.reads_cache) note_recomputed(chosen, computed_lately, prompt.tokens);
  }
  const auto all_blocks = static_cast<std::uint32_t>(view(*prompt.keys).size());
  routed.own_blocks = all_blocks - std::min(known, all_blocks);
  caches_.on_routed(routed, chosen.limits.kv_blocks, now);
  const std::uint32_t known_tokens = usable_cached_tokens(known, prompt.tokens, block_size_);
  forecaster_.on_routed(routed, chosen.forecast, chosen.limits, known_tokens, now);
  if (!query.streams) unseen_.await(decision.request, routed, now + from_milliseconds(chosen.forecast.ttft_ms));
  loads_.add(routed);
  on_worker_changed(chosen.worker);
  ++decisions_[static_cast<std::size_t>(mode_)];
  note_session(query, chosen.worker, now);
  if (observer_ != nullptr)
    routed.told = observer_->on_routed(decision.request, routed, known_tokens, query.session, now);
  return decision;
}

void Router::look_up(const RouteQuery& query, const BlockKeys& keys, const FleetView& fleet, TimePoint now) {
  const auto blocks = query.reads_cache ? view(keys) : std::span<const kv::BlockHash>();
  caches_.match(blocks, fleet, shared_, counts_prompts_in_flight(), now, depths_,
                {loads_.look_up(shared_), reused_.look_up(reused_depths_)});
}

void Router::look_up(const RouteQuery& query, const FleetView& fleet, TimePoint now) {
  look_up(query, query.blocks, fleet, now);
  if (query.otherwise.empty()) return;
  CacheDepths depths = depths_;
  std::vector<std::uint32_t> shared = shared_;
  std::vector<std::uint32_t> reused = reused_depths_;
  for (const PromptKeys& other : query.otherwise) {
    look_up(query, other.blocks, fleet, now);
    for (std::size_t i = 0; i < workers_; ++i) {
      if (fleet[i].reading != other.reading) continue;
      depths.set(WorkerId(static_cast<std::uint32_t>(i)), depths_[WorkerId(static_cast<std::uint32_t>(i))]);
      shared[i] = shared_[i];
      reused[i] = reused_depths_[i];
    }
  }
  depths_ = std::move(depths);
  shared_ = std::move(shared);
  reused_depths_ = std::move(reused);
}

void Router::find_usable(const RouteQuery& query, const FleetView& fleet, TimePoint now) {
  reused_.expire(now);
  look_up(query, fleet, now);
  const bool all_alike = query.adapter.empty() && query.excluded.empty() && query.otherwise.empty();
  const Narrowing narrowing = all_alike ? take_available(query, fleet) : take_some(query, fleet);
  if (narrowing.short_contexts) leave_out_short_contexts(fleet);
  stay_with_session(query, now);
  held_back_.clear();
  if (narrowing.new_workers) leave_out_new_workers(fleet);
  replicate_hot_prefix(query);
}

Router::Narrowing Router::take_available(const RouteQuery& query, const FleetView& fleet) {
  const bool read = usable_.begin_with_available(fleet, query.prompt_tokens);
  if (read && shortlist_) {
    for (const UsableWorker& usable : usable_.all())
      shortlist_->set_slots(usable.worker, fleet[usable.worker.value()].limits.max_batch_size);
  }
  usable_.set_cached(depths_.blocks, block_size_);
  return {.short_contexts = query.prompt_tokens > usable_.longest_prompt(), .new_workers = usable_.any_new()};
}

Router::Narrowing Router::take_some(const RouteQuery& query, std::span<const WorkerView> fleet) {
  const bool any = query.adapter.empty();
  const std::uint8_t group = any ? WorkerView::kOutOfUse : best_group(fleet, query.adapter);
  const auto can_take = [&](const WorkerView& view) {
    if (any) return view.available;
    return group != WorkerView::kOutOfUse && view.group == group && view.has_adapter(query.adapter);
  };
  Narrowing narrowing;
  usable_.begin();
  for (std::uint32_t i = 0; i < workers_; ++i) {
    const WorkerView& worker = fleet[i];
    const WorkerId id(i);
    if (!can_take(worker) || std::ranges::find(query.excluded, id) != query.excluded.end()) continue;
    const std::uint32_t tokens = as_read_by(worker, query).tokens;
    narrowing.short_contexts |= !fits(worker, tokens);
    narrowing.new_workers |= worker.most_waiting > 0;
    usable_.add({.worker = id,
                 .prompt_tokens = tokens,
                 .cached_tokens = usable_cached_tokens(depths_.blocks[i], tokens, block_size_)});
    if (shortlist_) shortlist_->set_slots(id, worker.limits.max_batch_size);
  }
  return narrowing;
}

// A worker that was started with a shorter context refuses a long prompt at once, which looks like a fast answer.
void Router::leave_out_short_contexts(std::span<const WorkerView> fleet) {
  const auto is_short = [&](const UsableWorker& usable) {
    return !fits(fleet[usable.worker.value()], usable.prompt_tokens);
  };
  if (std::ranges::all_of(usable_.all(), is_short)) return;  // If none fits, a worker says so in its own words.
  usable_.erase_if(is_short);
}

std::size_t Router::recorded() const {
  if (recorded_ > 0) return recorded_;
  return usable_.size() <= kAllRecorded ? kAllRecorded : kBestRecorded;
}

std::uint32_t Router::deepest_cache(const RouteQuery& query) const {
  std::uint32_t most = 0;
  for_each_that_knows(query, [&](WorkerId worker) { most = std::max(most, depths_.blocks[worker.value()]); });
  return most;
}

Candidate Router::candidate(const UsableWorker& usable, const RouteQuery& query,
                            std::span<const WorkerView> fleet) const {
  const std::size_t i = usable.worker.value();
  const PromptView prompt = as_read_by(fleet[i], query);
  return {.worker = usable.worker,
          .cached_blocks = depths_.blocks[i],
          .cached_tokens = usable.cached_tokens,
          .new_blocks = static_cast<std::uint32_t>(view(*prompt.keys).size() - shared_[i]),
          .lower_tier_blocks = depths_.lower_tiers[i],
          .replicate_tokens = usable.replicate_tokens,
          .trust = caches_.trust(usable.worker, fleet[i].events_exact),
          .limits = in_blocks_of(block_size_, fleet[i].limits),
          .load = loads_.load(usable.worker),
          .affinity_ms = affinity_ms(usable.worker)};
}

ForecastQuery Router::forecast_query(const Candidate& candidate, const RouteQuery& query,
                                     std::span<const WorkerView> fleet) const {
  const WorkerView& worker = fleet[candidate.worker.value()];
  const PromptView prompt = as_read_by(worker, query);
  return {.prompt_tokens = prompt.tokens,
          .uncached_tokens = prompt.tokens - candidate.cached_tokens,
          .new_blocks = candidate.new_blocks,
          .displaced_blocks = displaced_blocks(candidate.worker, view(*prompt.keys).size(), worker.limits)};
}

void Router::forecast_all(const RouteQuery& query, std::span<const WorkerView> fleet, TimePoint now) {
  candidates_.clear();
  for (const UsableWorker& usable : usable_.all()) {
    Candidate& made = candidates_.emplace_back(candidate(usable, query, fleet));
    made.forecast = forecaster_.forecast(made.worker, made.limits, forecast_query(made, query, fleet), now);
  }
}

std::size_t Router::choose(const RouteQuery& query, const PolicyQuery& policy_query, std::span<const WorkerView> fleet,
                           TimePoint now) {
  if (shortlist_ && mode_ == spec::RoutingMode::kKv && usable_.size() > std::max(kSmallFleet, recorded())) {
    const KvShortlist::Source source{
        .displaced_blocks =
            [&](const UsableWorker& usable) {
              const WorkerView& worker = fleet[usable.worker.value()];
              return displaced_blocks(usable.worker, view(*as_read_by(worker, query).keys).size(), worker.limits);
            },
        .affinity_ms = [&](WorkerId worker) { return affinity_ms(worker); },
        .candidate = [&](const UsableWorker& usable) { return candidate(usable, query, fleet); },
        .query = [&](const Candidate& candidate) { return forecast_query(candidate, query, fleet); }};
    return shortlist_->choose(static_cast<KvPolicy&>(*policy_), policy_query, usable_, source, recorded(), now,
                              candidates_);
  }
  forecast_all(query, fleet, now);
  if (mode_ == spec::RoutingMode::kClairvoyant && forecasts_ != nullptr) forecasts_->amend(query, candidates_);
  return policy_->choose(policy_query, candidates_);
}

void Router::on_first_token(RequestHandle handle, TimePoint now) {
  RoutedRequest* const request = requests_.find(handle);
  if (request == nullptr) return;
  log_.on_first_token(request->decision, now);
  if (!request->of_peer) assume_first_tokens_before(*request);
  forecaster_.on_first_token(*request, now);
  CacheKnowledge::on_computed(*request);
  if (observer_ != nullptr && !request->of_peer && !request->decoding) observer_->on_first_token(*request);
  loads_.on_first_token(*request);
  on_worker_changed(request->worker);
}

std::optional<WorkerId> Router::on_progress(RequestHandle handle, std::uint64_t tokens, TimePoint now) {
  RoutedRequest* const request = requests_.find(handle);
  if (request == nullptr) return std::nullopt;
  runs_.leave(*request);
  loads_.on_progress(*request, tokens);
  caches_.on_progress(request->worker, now);
  forecaster_.on_progress(*request, tokens, now);
  on_worker_changed(request->worker);
  return request->worker;
}

void Router::join_run(RequestHandle handle) {
  if (RoutedRequest* const request = requests_.find(handle)) runs_.join(*request);
}

void Router::leave_run(RequestHandle handle) {
  if (RoutedRequest* const request = requests_.find(handle)) runs_.leave(*request);
}

std::size_t Router::on_run_step(WorkerId worker, TimePoint now) {
  const std::span<const RequestId> run = runs_.ids(worker);
  if (run.empty()) return 0;
  const auto moved = [&](std::uint64_t from, std::uint64_t to) {
    loads_.on_moved(worker, from, to);
    forecaster_.on_moved(from, to);
  };
  loads_.on_run_step(worker, run.size());
  runs_.on_step(worker);
  caches_.on_progress(worker, now);
  // The clock ticks when its own token comes, as with tokens one by one.
  const std::size_t ticking = forecaster_.ticking(worker, run);
  runs_.on_moved(worker, 0, ticking, moved);
  forecaster_.on_run_step(worker, run.size(), ticking, now);
  runs_.on_moved(worker, ticking, run.size(), moved);
  on_worker_changed(worker);
  return run.size();
}

void Router::on_whole_answer(RequestHandle handle, const WholeAnswer& answer, TimePoint now) {
  RoutedRequest* const request = requests_.find(handle);
  if (request == nullptr) return;
  assume_first_tokens_before(*request);
  forecaster_.on_whole_answer(*request, answer, now);
  CacheKnowledge::on_computed(*request);
  if (observer_ != nullptr && !request->decoding) observer_->on_first_token(*request);
  loads_.on_first_token(*request);
  loads_.on_progress(*request, answer.tokens * request->choices);
  on_worker_changed(request->worker);
}

void Router::on_usage(RequestHandle handle, std::uint64_t /*prompt_tokens*/, std::uint64_t cached_tokens) {
  RoutedRequest* const request = requests_.find(handle);
  if (request == nullptr) return;
  log_.on_usage(request->decision, cached_tokens);
  caches_.on_usage(*request, cached_tokens);
}

void Router::on_failed(RequestHandle handle, std::string_view failure) {
  if (const RoutedRequest* const request = requests_.find(handle)) log_.on_failed(request->decision, failure);
}

void Router::on_finished(RequestHandle handle, bool completed, TimePoint now) {
  RoutedRequest* const request = requests_.find(handle);
  if (request == nullptr) return;
  runs_.leave(*request);
  log_.on_finished(request->decision, completed, request->output_tokens, now);
  // No first token was reported for an answer that arrived whole and without usage.
  const bool computed = request->has_begun() || completed;
  unseen_.remove(*request);
  if (request->of_peer) {
    caches_.on_peer_finished(*request, computed, now);
    --peer_requests_;
  } else {
    caches_.on_finished(*request, computed, request->answer_tokens(), now);
    if (observer_ != nullptr) observer_->on_finished(*request, completed);
  }
  if (!computed) {
    reused_.take_back(request->reuse);
    ghosts_.take_back(request->worker, view(request->blocks));
  }
  if (working_set_) working_set_->end(request->worker, request->blocks, computed, now);
  ghosts_.on_answer(request->output_tokens / block_size_, !request->of_peer);
  forecaster_.on_finished(*request, completed, now);
  loads_.remove(*request);
  on_worker_changed(request->worker);
  requests_.erase(handle);
}

void Router::set_mode(spec::RoutingMode mode) {
  if (mode == mode_) return;
  mode_ = mode;
  policy_ = make_policy(mode, seed_);
}

}  // namespace kvist::routing

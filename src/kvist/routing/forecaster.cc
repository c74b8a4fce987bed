#include "kvist/routing/forecaster.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace kvist::routing {
namespace {

/// A longer gap between tokens is not a step: the client was slow, or the worker stalled.
constexpr double kLongestStepMs = 60'000;
/// So many mean errors of a worker's first tokens behind its forecast, a prompt is late.
constexpr double kErrorsToBeSure = 3;
/// Slots or KV memory are scarce when less than this share of them is free. The last of less than 64 slots is as good
/// as any other: the request starts at once, so that a cache at a worker of few slots is worth what it saves.
constexpr double kScarceShare = 1.0 / 64;
/// With fewer observations a worker's forecast error is not used, because the first forecasts are those of the prior.
constexpr std::uint64_t kEnoughObservations = 100;
/// A step that computes a prompt beside the decoding takes longer than this many times the decoding alone.
constexpr double kDecodingAlone = 1.25;
/// So many whole answers after a first token that was seen are not learned from: they say less, and less surely.
constexpr std::uint32_t kSeenLately = 3;
/// Time constant of a worker's mean load: about as long as an answer takes.
constexpr double kMeanLoadSeconds = 30;

/// The time until a request has come into the engine. A request without prefill needs this, the rest of the current
/// step and a step of its own. Meanwhile other requests end.
double way_in_ms(const FleetLatency::Expectation& model, double step_ms) {
  return std::max(0.0, model.first_token_ms(step_ms, {}) - 2 * step_ms);
}

PrefillWork work_of(std::uint32_t prompt_tokens, std::uint32_t uncached_tokens) {
  return {.uncached = static_cast<double>(uncached_tokens),
          .cached = static_cast<double>(prompt_tokens - uncached_tokens)};
}

/// What has come after `before`; nothing if something is missing, because an attempt failed or a prompt overtook.
PrefillSum later_work(PrefillSum all, const PrefillSum& before) {
  all.subtract(before);
  return {.uncached = std::max(0.0, all.uncached), .pairs = std::max(0.0, all.pairs)};
}

/// When other gateways were silent for so long, there is none of whose requests word is on its way.
constexpr Duration kSilentPeers = std::chrono::seconds(10);
/// Time constant of the mean number of requests in transit.
constexpr Duration kTransitMemory = std::chrono::seconds(10);

double kept_in_transit(TimePoint since, TimePoint now) {
  return std::exp(-to_seconds(now - since) / to_seconds(kTransitMemory));
}

}  // namespace

Forecaster::Forecaster(const LoadTracker& loads, std::size_t workers, const spec::StepTimeSpec& prior,
                       std::uint32_t block_size)
    : loads_(&loads),
      block_size_(block_size),
      prior_(prior),
      latency_(workers, prior),
      workers_(workers),
      recent_(workers) {}

void Forecaster::forget(WorkerId id) {
  latency_.forget(id, prior_);
  workers_.at(id.value()) = {};
  recent_[id.value()] = {};
}

Forecast Forecaster::forecast(WorkerId id, const EngineLimits& limits, const ForecastQuery& query,
                              TimePoint now) const {
  const FleetLatency::Expectation model = latency_.expect(id, now);
  const WorkerLoad& load = loads_->load(id);
  const Room room = this->room(id, limits, query, now);
  // Requests that wait for their first token count too: they will be decoding beside this one soon.
  const std::uint32_t slots = limits.max_batch_size == 0 ? ~0U : limits.max_batch_size;
  const std::uint32_t batch = std::min(load.requests, slots);
  const std::uint32_t batch_with = std::min(load.requests + 1, slots);
  const std::uint64_t mean_context = load.decoding == 0 ? query.prompt_tokens : load.context_tokens / load.decoding;
  Forecast f;
  f.step_ms = model.step_ms(batch, mean_context * batch);
  f.step_with_ms = model.step_ms(batch_with, mean_context * batch + query.prompt_tokens);
  f.has_slot = room.has_slot;
  f.scarce = room.scarce;
  if (!room.has_slot) {
    const double wait_ms = f.step_ms * lengths_.steps_until_ended(loads_->progress(id), room.endings);
    f.slot_wait_ms = std::max(0.0, wait_ms - way_in_ms(model, f.step_ms));
  }
  f.lost_tokens = lost_tokens(query, room);
  const PrefillWork work = work_of(query.prompt_tokens, query.uncached_tokens + f.lost_tokens);
  f.queue_ms = queue_ms(id, model, f.step_ms, now);
  f.prefill_ms = model.prefill_ms(work);
  f.fleet_prefill_ms = latency_.fleet().prefill_ms(work);
  f.displaced_ms = displaced_ms(query.displaced_blocks, query.prompt_tokens);
  f.ttft_ms = f.slot_wait_ms + f.queue_ms + model.first_token_ms(f.step_with_ms, work);
  f.held_up_ms = workers_[id.value()].returning.held_up_ms(f.queue_ms, f.prefill_ms, now);
  f.crowding_ms = batch * std::max(0.0, f.step_with_ms - f.step_ms);
  f.answer_tokens = lengths_.mean_tokens();
  f.mean_requests = mean_requests(id, now);
  f.since_routed_ms = since_routed_ms(id, now);
  f.known = model.own_share();
  f.error = error(id);
  return f;
}

double Forecaster::displaced_ms(std::uint64_t displaced_blocks, std::uint32_t prompt_tokens) const {
  if (displaced_blocks == 0) return 0;
  const std::uint64_t tokens = std::min<std::uint64_t>(displaced_blocks * block_size_, prompt_tokens);
  return latency_.fleet().prefill_ms(work_of(prompt_tokens, static_cast<std::uint32_t>(tokens)));
}

double Forecaster::error(WorkerId id) const {
  const PredictionError& error = latency_.model(id).first_token_error();
  return error.observations >= kEnoughObservations ? error.relative() : 0;
}

// KV memory is counted up to the end that is expected of every answer by its length so far. Some engines reserve memory
// in this way; the others would have to preempt a request when it runs out.
Forecaster::Room Forecaster::room(WorkerId id, const EngineLimits& limits, const ForecastQuery& query,
                                  TimePoint now) const {
  const WorkerLoad& load = loads_->load(id);
  const Worker& worker = workers_[id.value()];
  Room room;
  if (const double slots = limits.max_batch_size; slots > 0) {
    const double left = slots - load.requests - 1;
    room.has_slot = left >= 0;
    room.scarce = left < std::floor(slots * kScarceShare);
    room.endings = std::max(0.0, -left);
  }
  if (limits.kv_blocks > 0 && load.requests > 0) {
    const double asked = query.new_blocks + lengths_.mean_tokens() / block_size_;
    const double enough = std::max(asked, limits.kv_blocks * kScarceShare);
    const double blocks = limits.kv_blocks * worker.admission.usable_share(now);
    const OutputProgress& progress = loads_->progress(id);
    // An upper bound, which usually shows that there is room. The exact sum takes longer.
    double answers = loads_->answers(id) * lengths_.total_tokens(progress.farthest());
    if (blocks - (static_cast<double>(load.prompt_blocks) + answers / block_size_) - asked < enough)
      answers = lengths_.total_tokens(progress);
    const double taken = static_cast<double>(load.prompt_blocks) + answers / block_size_;
    const double left = blocks - taken - asked;
    room.has_slot = room.has_slot && left >= 0;
    room.scarce = room.scarce || left < enough;
    room.lacks_memory = left < 0;
    if (left < 0) room.endings = std::max(room.endings, std::ceil(-left / (taken / load.requests)));
  }
  if (worker.admission.stalled() && load.decoding > 0) {
    // Each request that ends makes room for about one of those that wait. Where nobody decodes there is room.
    room.has_slot = false;
    room.scarce = true;
    room.lacks_memory = room.lacks_memory || !Admission::is_full(load.decoding, limits.max_batch_size);
    room.endings = std::max(room.endings, static_cast<double>(worker.prompts.streams(now) + 1));
  }
  return room;
}

// A request that waits for KV memory holds none. What only the cache keeps of its prompt was used before what the
// requests before it need, so all of it is evicted for them.
std::uint32_t Forecaster::lost_tokens(const ForecastQuery& query, const Room& room) const {
  if (!room.lacks_memory) return 0;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(std::uint64_t{query.new_blocks} * block_size_,
                                                            query.prompt_tokens - query.uncached_tokens));
}

// Between the end of a prompt's computation and its first token, about as much time passes as a request without prefill
// takes in all. That includes its way into the engine, which should not count here; but it is the same for all
// requests, so that it does not change their order.
double Forecaster::queue_ms(WorkerId id, const FleetLatency::Expectation& model, double step_ms, TimePoint now) const {
  return workers_[id.value()].prompts.wait_ms(now, model.first_token_ms(step_ms, {}),
                                              [&](const PrefillWork& work) { return model.prefill_ms(work); });
}

Forecaster::Unseen Forecaster::unseen(const RoutedRequest& request, TimePoint now) const {
  const FleetLatency::Expectation model = latency_.expect(request.worker, now);
  const double way_out_ms = model.first_token_ms(request.first_token.step_ms, {});
  const TimePoint computed = workers_[request.worker.value()].prompts.computed_at(
      request.id, now, way_out_ms, [&](const PrefillWork& work) { return model.prefill_ms(work); });
  return {.computed = computed, .first_token = computed + from_milliseconds(way_out_ms)};
}

double Forecaster::prefill_under_way_ms(WorkerId id) const {
  return workers_[id.value()].prompts.total_ms(
      [&](const PrefillWork& work) { return latency_.model(id).prefill_ms(work); });
}

double Forecaster::mean_requests(WorkerId id, TimePoint now) const {
  const Recent& recent = recent_[id.value()];
  const double elapsed = to_seconds(now - recent.averaged);
  const double share =
      elapsed / (elapsed + kMeanLoadSeconds);  // close to an exponential mean, and cheaper to compute for each worker
  return recent.mean_requests + share * (loads_->load(id).requests - recent.mean_requests);
}

void Forecaster::average(WorkerId id, TimePoint now) {
  Recent& recent = recent_[id.value()];
  if (now <= recent.averaged) return;
  recent.mean_requests = mean_requests(id, now);
  workers_[id.value()].request_seconds += loads_->load(id).requests * to_seconds(now - recent.averaged);
  recent.averaged = now;
}

void Forecaster::on_routed(RoutedRequest& request, const Forecast& forecast, const EngineLimits& limits,
                           std::uint32_t known_tokens, TimePoint now) {
  average(request.worker, now);
  Worker& worker = workers_[request.worker.value()];
  request.first_token = {.routed = now,
                         .ttft_ms = forecast.ttft_ms,
                         .queue_ms = forecast.queue_ms,
                         .wait_ms = forecast.wait_ms(),
                         .step_ms = forecast.step_with_ms,
                         .ahead_tokens = static_cast<double>(loads_->load(request.worker).prefill_tokens),
                         .request_seconds = worker.request_seconds,
                         .routed_work = worker.routed_work,
                         .unseen_work = worker.unseen_work,
                         .has_slot = forecast.has_slot,
                         .behind_peers = worker.prompts.has_peers(),
                         .open = true};
  if (known_tokens > 0 && !request.stands_in) {
    const std::uint32_t known = std::min(known_tokens, request.prompt_tokens);
    const LatencyModel& fleet = latency_.fleet();
    worker.returning.add(fleet.prefill_ms(work_of(request.prompt_tokens, request.prompt_tokens)) -
                             fleet.prefill_ms(work_of(request.prompt_tokens, request.prompt_tokens - known)),
                         now);
  }
  const TimePoint came = now - request.late;
  worker.prompts.push({.request = request.id,
                       .ready = came + from_milliseconds(forecast.slot_wait_ms),
                       .work = work_of(request.prompt_tokens, request.uncached_tokens),
                       .streams = request.streams && !request.of_peer,  // word of it may be late, or be lost
                       .due = now + from_milliseconds(forecast.ttft_ms - forecast.slot_wait_ms),
                       .new_blocks = request.new_blocks,
                       .first_token = now + from_milliseconds(forecast.ttft_ms),
                       .routed = came,
                       .of_peer = request.of_peer,
                       .stands_in = request.stands_in,
                       .late = request.late});
  worker.clean = false;
  if (request.stands_in) return;  // sums have those that it stands for when word of them comes
  worker.routed_work.add(work_of(request.prompt_tokens, request.uncached_tokens));
  if (!request.streams || request.of_peer)
    worker.unseen_work.add(work_of(request.prompt_tokens, request.uncached_tokens));
  if (request.of_peer) {
    late_ = request.late;
    told_at_ = now;
    worker.prompts.on_told(came, work_of(request.prompt_tokens, request.uncached_tokens));
    if (came < worker.last_routed)
      worker.unseen_before_last.add(work_of(request.prompt_tokens, request.uncached_tokens));
  }
  worker.admission.set_limits(limits.kv_blocks, limits.max_batch_size);
  if (!request.of_peer)
    recent_[request.worker.value()].routed = now;  // word of others comes late and at once, and tells of no turn
  routed_prefill_ms_ += forecast.prefill_ms;
  transit_ms_ = transit_ms_ * kept_in_transit(transit_at_, now) +
                std::max(0.0, forecast.ttft_ms - forecast.wait_ms() - forecast.prefill_ms);
  transit_at_ = now;
}

double Forecaster::in_transit(TimePoint now) const {
  return transit_ms_ * kept_in_transit(transit_at_, now) / to_milliseconds(kTransitMemory);
}

void Forecaster::on_first_token(RoutedRequest& request, TimePoint now) {
  FirstTokenExpectation& expected = request.first_token;
  if (!std::exchange(expected.open, false)) return;
  Worker& worker = workers_[request.worker.value()];
  PrefillQueue& prompts = worker.prompts;
  // By one's own: word of other gateways' first tokens is late.
  const double behind_ms = std::max(0.0, to_milliseconds(prompts.last_own_first_token() - expected.routed));
  const bool in_order = expected.in_order = came_in_order(request, now);
  // Gateways that see a worker free give it requests at the same time, and hear of each other's later: what came before
  // the request is known when it has been here for as long as word of the others' is on its way.
  const PrefillSum told_later = prompts.told_later(request.id);
  const bool all_told = now - expected.routed >= late_ || now - told_at_ > kSilentPeers;
  PrefillSum unseen_work = expected.unseen_work;
  unseen_work.add(told_later);
  prompts.on_first_token(request.id, now);
  // Only requests that had a slot are learned from: the model would take a wait for a slot for slow prefill.
  if (in_order && expected.has_slot && !worker.admission.stalled() && !request.of_peer) {
    const double step_ms = worker.decoding > 0 ? std::min(expected.step_ms, worker.step_ms) : expected.step_ms;
    latency_.observe_first_token(
        request.worker,
        {.ttft_ms = to_milliseconds(now - expected.routed),
         .queue_ms = expected.queue_ms,
         .step_ms = expected.step_ms,
         .work = work_of(request.prompt_tokens, request.uncached_tokens),
         .ahead_tokens = expected.ahead_tokens,
         .behind_ms = all_told ? behind_ms : 0,
         .between = later_work(unseen_work, worker.unseen_before_last),
         .behind_peers = expected.behind_peers || told_later.uncached > 0 || (behind_ms > 0 && !all_told)},
        step_ms, prompts.oldest_stream(now) != nullptr, now);
  } else {
    latency_.end_step(request.worker, now);
  }
  if (!request.of_peer) {
    worker.unseen_before_last = unseen_work;
    worker.last_routed = expected.routed;
    worker.whole_answers = 0;
  }
  worker.admission.on_admitted([&] { return running_blocks(request.worker, now); }, now);
}

// What came beside a prompt that was overtaken, or before the prompts that it overtook itself, says nothing of how long
// a prompt takes behind another.
bool Forecaster::came_in_order(const RoutedRequest& request, TimePoint now) const {
  const PrefillQueue& prompts = workers_[request.worker.value()].prompts;
  if (prompts.is_overtaken(request.id, now)) return false;
  const PrefillQueue::Prompt* const oldest = prompts.oldest_stream(now);
  const bool overtakes = oldest != nullptr && oldest->request != request.id &&
                         to_milliseconds(now - request.first_token.routed) < request.first_token.queue_ms;
  return !overtakes;
}

// The end of an answer says when its first token must have come, and with it the prompts before its own.
void Forecaster::on_whole_answer(RoutedRequest& request, const WholeAnswer& answer, TimePoint now) {
  const FirstTokenExpectation& expected = request.first_token;
  if (!std::exchange(request.first_token.open, false)) return;
  lengths_.on_progress(0, answer.tokens);
  const WorkerId id = request.worker;
  PrefillQueue& prompts = workers_[id.value()].prompts;
  const double elapsed_ms = to_milliseconds(now - expected.routed);
  prompts.erase(request.id);
  prompts.pass_before(expected.routed, now);
  if (!expected.has_slot || answer.tokens == 0 || elapsed_ms <= 0) return;
  const WholeAnswerSample sample = whole_answer_sample(request, answer, elapsed_ms, now);
  const LatencyModel& model = latency_.model(id);
  const double computed_ms = model.first_token_after_ms(sample) - model.first_token_ms(sample.step_ms, {});
  prompts.on_computed_by(expected.routed + from_milliseconds(std::max(0.0, computed_ms)));
  if (std::uint32_t& whole = workers_[id.value()].whole_answers; whole < kSeenLately) {
    ++whole;
  } else {
    latency_.observe_whole_answer(id, sample, now);
  }
}

WholeAnswerSample Forecaster::whole_answer_sample(const RoutedRequest& request, const WholeAnswer& answer,
                                                  double elapsed_ms, TimePoint now) {
  average(request.worker, now);
  const FirstTokenExpectation& expected = request.first_token;
  const Worker& worker = workers_[request.worker.value()];
  const double request_seconds = worker.request_seconds - expected.request_seconds;
  const auto batch = static_cast<std::uint32_t>(std::max(1.0, std::round(request_seconds * 1e3 / elapsed_ms)));
  const std::uint32_t uncached = answer.cached_tokens
                                     ? answer.prompt_tokens - std::min(*answer.cached_tokens, answer.prompt_tokens)
                                     : std::min(request.uncached_tokens, answer.prompt_tokens);
  return {.queue_ms = expected.queue_ms,
          .step_ms = expected.step_ms,
          .work = work_of(answer.prompt_tokens, uncached),
          .ahead_tokens = expected.ahead_tokens,
          .others = computed_since(worker, request),
          .elapsed_ms = elapsed_ms,
          .steps = static_cast<double>(answer.tokens - 1),
          .batch = batch,
          .context_tokens = batch * (answer.prompt_tokens + answer.tokens / 2)};
}

// Those of the prompts that are still in the queue came later, because the ones before have left it.
PrefillSum Forecaster::computed_since(const Worker& worker, const RoutedRequest& request) {
  PrefillSum before = request.first_token.routed_work;
  before.add(work_of(request.prompt_tokens, request.uncached_tokens));
  return later_work(later_work(worker.routed_work, before), worker.prompts.work());
}

bool Forecaster::only_decodes(WorkerId worker) const {
  const WorkerLoad& load = loads_->load(worker);
  return load.decoding == load.requests;
}

// What the requests that are in the engine's batch will hold at their ends.
double Forecaster::running_blocks(WorkerId id, TimePoint now) const {
  const WorkerLoad& load = loads_->load(id);
  const PrefillQueue& prompts = workers_[id.value()].prompts;
  const double waiting = static_cast<double>(prompts.streams(now)) * lengths_.mean_tokens() / block_size_;
  return static_cast<double>(load.prompt_blocks - std::min(load.prompt_blocks, prompts.new_blocks())) +
         lengths_.total_tokens(loads_->progress(id)) / block_size_ - waiting;
}

// When a prompt's first token would have come if the engine had room for it, however long its way into the engine was.
// Where steps take 4 ms eight of them are shorter than that way differs from one request to the next; and a step that
// computes a short prompt, or a part of a long one, may be hardly longer than one that only decodes.
TimePoint Forecaster::surely_due(WorkerId id, const PrefillQueue::Prompt& prompt) const {
  return prompt.due + from_milliseconds(kErrorsToBeSure * latency_.model(id).first_token_error().mean_absolute_ms);
}

// A step that takes no longer than decoding alone computed no prompt.
void Forecaster::watch_admission(WorkerId id, double gap_ms, std::uint64_t context, TimePoint now) {
  Worker& worker = workers_[id.value()];
  const PrefillQueue::Prompt* const oldest = worker.prompts.oldest_stream(now);
  const WorkerLoad& load = loads_->load(id);
  // The fleet's observations count: if requests have waited at a worker from the first on, its own model has never seen
  // a step that only decoded.
  if (oldest == nullptr || now < surely_due(id, *oldest) ||
      latency_.fleet().step_error().observations < kEnoughObservations ||
      gap_ms > kDecodingAlone * latency_.expect(id, now).step_ms(load.decoding, context)) {
    worker.admission.on_other_step();
    return;
  }
  worker.admission.on_refused(load.decoding, now, [&] {
    return running_blocks(id, now) + oldest->new_blocks + lengths_.mean_tokens() / block_size_;
  });
}

void Forecaster::on_progress(const RoutedRequest& request, std::uint64_t tokens, TimePoint now) {
  const std::uint64_t before = request.output_tokens - std::min(request.output_tokens, tokens);
  lengths_.on_progress(before / request.choices, request.answer_tokens());
  if (!request.decoding || request.of_peer) return;
  // The tokens of several choices come at once, which is one step.
  if (request.choices > 1 && request.answer_tokens() == before / request.choices) return;
  Worker& worker = workers_[request.worker.value()];
  if (worker.clock != request.id) {
    if (worker.clock != RequestId()) return;
    worker.clock = request.id;
    worker.new_clock = true;
    worker.clean = false;
  }
  tick(request.worker, loads_->load(request.worker).context_tokens, now);
}

std::size_t Forecaster::ticking(WorkerId id, std::span<const RequestId> run) {
  Worker& worker = workers_[id.value()];
  if (worker.clock == RequestId()) {
    worker.clock = run.front();
    worker.new_clock = true;
    worker.clean = false;
  }
  const auto place = std::ranges::find(run, worker.clock);
  return place == run.end() ? 0 : static_cast<std::size_t>(place - run.begin()) + 1;
}

void Forecaster::on_run_step(WorkerId id, std::size_t run, std::size_t ticking, TimePoint now) {
  if (ticking > 0) tick(id, loads_->load(id).context_tokens - (run - ticking), now);
}

void Forecaster::tick(WorkerId id, std::uint64_t context, TimePoint now) {
  Worker& worker = workers_[id.value()];
  const WorkerLoad& load = loads_->load(id);
  const double gap_ms = to_milliseconds(now - worker.clocked);
  if (!std::exchange(worker.new_clock, false)) worker.step_ms = gap_ms;
  const bool decodes_only = only_decodes(id);
  if (worker.clean && decodes_only && worker.decoding == load.decoding && gap_ms > 0 && gap_ms < kLongestStepMs)
    latency_.observe_step(id, load.decoding, context, gap_ms, now);
  if (!decodes_only && worker.decoding == load.decoding && gap_ms > 0) watch_admission(id, gap_ms, context, now);
  worker.clocked = now;
  worker.decoding = load.decoding;
  worker.clean = decodes_only;
}

void Forecaster::on_finished(const RoutedRequest& request, bool completed, TimePoint now) {
  average(request.worker, now);
  // The length of an answer that came at once and reported none is not known.
  if (completed && request.output_tokens > 0) lengths_.observe(request.answer_tokens());
  Worker& worker = workers_[request.worker.value()];
  if (worker.clock == request.id) worker.clock = RequestId();
  worker.prompts.erase(request.id);
  if (worker.prompts.streams(now) == 0) worker.admission.on_other_step();
  worker.clean = false;
}

}  // namespace kvist::routing

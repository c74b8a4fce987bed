#include "kvist/routing/cache_knowledge.h"

#include <algorithm>
#include <utility>

namespace kvist::routing {
namespace {

// Of what was routed, Dynamo's default for workers without events.
constexpr auto kPredictedTtl = std::chrono::seconds(120);
// From the end of a request to its last KV event: a step, the way, and as much again for a busy gateway.
constexpr auto kSettlingTime = std::chrono::seconds(1);
constexpr std::size_t kSettlingBytes = 32U << 20;
// The share of expected tokens below which events are called contradicted, and above which no longer.
constexpr double kContradicted = 0.5;
constexpr double kAgreedAgain = 0.75;
// Events that are late by less are on their way.
constexpr auto kSilence = std::chrono::seconds(1);

std::uint32_t scaled(std::uint32_t blocks, double weight) {
  return static_cast<std::uint32_t>(static_cast<double>(blocks) * weight);
}

// At least the last token is computed, however much is cached.
std::uint64_t expected_tokens(std::uint32_t blocks, std::uint32_t prompt_tokens, std::uint32_t block_size) {
  if (prompt_tokens == 0) return 0;
  return std::uint64_t{std::min(blocks, (prompt_tokens - 1) / block_size)} * block_size;
}

}  // namespace

CacheKnowledge::CacheKnowledge(Options options)
    : block_size_(options.block_size),
      index_({.model = std::move(options.model), .block_size = options.block_size}),
      routed_({.ttl = kPredictedTtl}, options.workers),
      settling_({.ttl = kSettlingTime, .max_bytes = kSettlingBytes}, options.workers),
      workers_(options.workers),
      by_events_(options.workers),
      by_prediction_(options.workers),
      settling_depths_(options.workers) {}

CacheTrust CacheKnowledge::trust(const Worker& worker, bool events_exact) const {
  if (events_exact && !worker.contradicted && !worker.silent) return CacheTrust::kExact;
  return worker.predicted.weight() > 0 || worker.events.weight() > 0 ? CacheTrust::kPredicted : CacheTrust::kNone;
}

void CacheKnowledge::match(std::span<const kv::BlockHash> prompt, std::span<const WorkerView> fleet,
                           std::span<const std::uint32_t> in_flight, bool with_in_flight, TimePoint now,
                           std::span<CacheDepth> depths) {
  routed_.expire(now);
  settling_.expire(now);
  index_.match(prompt, by_events_);
  routed_.match(prompt, by_prediction_);
  settling_.match(prompt, settling_depths_);
  for (std::size_t i = 0; i < depths.size(); ++i) {
    const Worker& worker = workers_[i];
    depths[i].trust = trust(worker, fleet[i].events_exact);
    std::uint32_t& blocks = depths[i].blocks = scaled(by_events_[i], worker.events.weight());
    if (depths[i].trust == CacheTrust::kExact) {
      if (with_in_flight) blocks = std::max({blocks, in_flight[i], settling_depths_[i]});
    } else {
      blocks = std::max(blocks, scaled(by_prediction_[i], worker.predicted.weight()));
    }
  }
}

void CacheKnowledge::on_routed(RequestId request, WorkerId worker, const BlockKeys& prompt, std::uint32_t prompt_tokens,
                               std::uint32_t max_blocks, TimePoint now) {
  expected_[request] = {.worker = worker,
                        .prompt = prompt,
                        .by_events = expected_tokens(by_events_[worker.value()], prompt_tokens, block_size_),
                        .by_prediction = expected_tokens(by_prediction_[worker.value()], prompt_tokens, block_size_),
                        .events_run = workers_[worker.value()].events_run,
                        .predicted_run = workers_[worker.value()].predicted_run};
  routed_.insert(worker, prompt, max_blocks, now);
}

// A request publishes a block at least every `block_size` tokens of its own. Once twice that was generated per request
// in the batch, one of them at least must have filled a block.
void CacheKnowledge::on_generated(WorkerId id, std::uint64_t tokens, std::uint32_t decoding, TimePoint now) {
  Worker& worker = workers_[id.value()];
  if (worker.generated_tokens == 0) worker.generating_since = now;
  worker.generated_tokens += tokens;
  if (worker.silent || worker.generated_tokens <= 2ULL * block_size_ * (decoding + 1ULL)) return;
  worker.silent = now - worker.generating_since > kSilence;
}

void CacheKnowledge::on_usage(RequestId request, std::uint64_t cached_tokens) {
  const Expected* const expected = expected_.find(request);
  if (expected == nullptr) return;
  Worker& worker = workers_[expected->worker.value()];
  const std::uint64_t by_events = expected->events_run == worker.events_run ? expected->by_events : 0;
  const std::uint64_t by_prediction = expected->predicted_run == worker.predicted_run ? expected->by_prediction : 0;
  if (by_events + by_prediction > 0) ++worker.usage_reports;
  worker.events.observe(by_events, cached_tokens);
  worker.predicted.observe(by_prediction, cached_tokens);
  const double share = worker.events.share();
  if (!worker.contradicted && share < kContradicted) {
    worker.contradicted = true;
    ++worker.distrusted;
  } else if (worker.contradicted && share > kAgreedAgain) {
    worker.contradicted = false;
  }
}

void CacheKnowledge::on_finished(RequestId request, bool computed, TimePoint now) {
  const Expected* const expected = expected_.find(request);
  if (expected == nullptr) return;
  if (computed) settling_.insert(expected->worker, expected->prompt, 0, now);
  expected_.erase(request);
}

std::size_t CacheKnowledge::on_kv_events(WorkerId id, std::span<const kv::KvEvent> events) {
  const std::size_t refused = index_.apply(id, events);
  Worker& worker = workers_[id.value()];
  worker.generated_tokens = 0;
  worker.silent = false;
  return refused;
}

void CacheKnowledge::reset_events(WorkerId id) {
  index_.clear(id);
  Worker& worker = workers_[id.value()];
  worker.events.restart();
  ++worker.events_run;
  worker.contradicted = false;
}

void CacheKnowledge::on_restarted(WorkerId id) {
  routed_.clear(id);
  settling_.clear(id);
  Worker& worker = workers_[id.value()];
  worker.predicted.restart();
  ++worker.predicted_run;
}

CacheTrustReport CacheKnowledge::report(WorkerId id, bool events_exact) const {
  const Worker& worker = workers_.at(id.value());
  return {.trust = trust(worker, events_exact),
          .events_share = worker.events.share(),
          .predicted_share = worker.predicted.share(),
          .predicted_blocks = routed_.blocks(id),
          .predicted_prompts = routed_.prompts(id),
          .usage_reports = worker.usage_reports,
          .corrections = worker.events.corrections() + worker.predicted.corrections(),
          .distrusted = worker.distrusted,
          .events_silent = worker.silent};
}

}  // namespace kvist::routing

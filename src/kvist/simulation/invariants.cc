#include "kvist/simulation/invariants.h"

#include <fmt/format.h>

#include <algorithm>

namespace kvist::simulation {

void Ledger::integrate(TimePoint now) {
  if (now < last_) times_in_order_ = false;
  integral_ns_ += within_window(last_, now).count() * static_cast<std::int64_t>(started_ - ended_);
  last_ = now;
}

Duration Ledger::within_window(TimePoint begin, TimePoint end) const {
  return std::max(Duration::zero(), std::min(end, to_) - std::max(begin, from_));
}

void Ledger::on_turn_started(TimePoint now) {
  integrate(now);
  ++started_;
  peak_ = std::max(peak_, started_ - ended_);
}

void Ledger::on_turn_ended(const workload::TurnSample& sample, TimePoint now) {
  integrate(now);
  ++ended_;
  sojourn_ns_ += within_window(sample.sent, sample.ended).count();
  if (sample.ended != now || sample.sent > now) times_in_order_ = false;
  if (sample.chunks > 0 && (sample.first_token < sample.sent || sample.last_token < sample.first_token ||
                            sample.ended < sample.last_token)) {
    times_in_order_ = false;
  }
  if (sample.outcome != workload::TurnOutcome::kSucceeded) return;
  ++succeeded_;
  prompt_tokens_ += sample.prompt_tokens;
  cached_tokens_ += sample.cached_tokens;
  completion_tokens_ += sample.completion_tokens;
}

Violation Ledger::check() const {
  if (started_ != ended_) return fmt::format("{} turns started and {} ended", started_, ended_);
  if (!times_in_order_) return "a turn's instants are out of order";
  if (limit_ > 0 && peak_ > limit_)
    return fmt::format("{} turns were in flight at once, the limit is {}", peak_, limit_);
  if (integral_ns_ != sojourn_ns_) {
    return fmt::format("Little's law: the turns in flight integrate to {} ns in the window, their times to {} ns",
                       integral_ns_, sojourn_ns_);
  }
  return std::nullopt;
}

Violation check_drained(const SimulatedWorker& worker) {
  const engine::CoreStats stats = worker.driver().stats();
  if (!worker.idle() || stats.running != 0 || stats.waiting != 0) {
    return fmt::format("{} requests are running and {} waiting after the drain", stats.running, stats.waiting);
  }
  if (stats.kv_blocks_used != 0) {
    return fmt::format("{} of {} KV blocks are held and nobody holds them", stats.kv_blocks_used,
                       stats.kv_blocks_total);
  }
  if (stats.prefix_hit_tokens > stats.prefix_query_tokens) {
    return fmt::format("{} tokens were found in the cache, only {} were looked up", stats.prefix_hit_tokens,
                       stats.prefix_query_tokens);
  }
  return std::nullopt;
}

Violation check_drained(const SimulatedGateway& gateway, const std::vector<SimulatedWorker>& workers) {
  if (!gateway.idle() || gateway.dispatcher().in_flight() != 0) {
    return fmt::format("{} requests are in flight at the gateway after the drain", gateway.dispatcher().in_flight());
  }
  const routing::LoadTracker& loads = gateway.router().loads();
  if (loads.requests() != 0) return fmt::format("{} requests are booked and none is in flight", loads.requests());
  for (std::uint32_t i = 0; i < workers.size(); ++i) {
    const WorkerId worker(i);
    if (loads.load(worker) != routing::WorkerLoad{}) return fmt::format("load is booked on worker {} for nobody", i);
    const std::size_t known = gateway.router().index().worker_blocks(worker);
    const std::size_t held = workers[i].driver().core().findable_blocks().size();
    if (known != held) {
      return fmt::format("the index knows {} blocks of worker {}, which holds {}", known, i, held);
    }
  }
  if (gateway.refused_kv_events() != 0) return fmt::format("{} KV events were refused", gateway.refused_kv_events());
  return std::nullopt;
}

Violation check_tokens(const Ledger& ledger, const std::vector<SimulatedWorker>& workers) {
  engine::CoreStats sum;
  for (const SimulatedWorker& worker : workers) {
    const engine::CoreStats stats = worker.driver().stats();
    sum.prompt_tokens += stats.prompt_tokens;
    sum.prefix_hit_tokens += stats.prefix_hit_tokens;
    sum.generated_tokens += stats.generated_tokens;
    sum.finished += stats.finished;
  }
  const auto differ = [&](const char* what, std::uint64_t client, std::uint64_t engines) -> Violation {
    if (client == engines || (client < engines && !ledger.all_succeeded())) return std::nullopt;
    return fmt::format("{}: {} by the clients' usage, {} by the engines", what, client, engines);
  };
  if (Violation v = differ("prompt tokens", ledger.prompt_tokens(), sum.prompt_tokens)) return v;
  if (Violation v = differ("cached tokens", ledger.cached_tokens(), sum.prefix_hit_tokens)) return v;
  if (Violation v = differ("output tokens", ledger.completion_tokens(), sum.generated_tokens)) return v;
  return differ("answers", ledger.succeeded(), sum.finished);
}

}  // namespace kvist::simulation

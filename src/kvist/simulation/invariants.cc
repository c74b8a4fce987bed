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
  if (limit_ > 0 && started_ - ended_ > limit_) excess_ = std::max(excess_, started_ - ended_);
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
}

void Ledger::on_usage(const Piece& last) {
  ++usage_.answers;
  usage_.prompt_tokens += last.prompt_tokens;
  usage_.cached_tokens += last.cached_tokens;
  usage_.completion_tokens += last.completion_tokens;
}

Violation Ledger::check() const {
  if (started_ != ended_) return fmt::format("{} turns started and {} ended", started_, ended_);
  if (!times_in_order_) return "a turn's instants are out of order";
  if (excess_ > 0) return fmt::format("{} turns were in flight at once, more than the limit", excess_);
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
  SimulatedWorker::Lost lost;
  for (const SimulatedWorker& worker : workers) {
    const engine::CoreStats stats = worker.driver().stats();
    sum.prompt_tokens += stats.prompt_tokens;
    sum.prefix_hit_tokens += stats.prefix_hit_tokens;
    sum.generated_tokens += stats.generated_tokens;
    sum.finished += stats.finished;
    sum.aborted += stats.aborted;
    lost.cached_tokens += worker.lost().cached_tokens;
    lost.output_tokens += worker.lost().output_tokens;
  }
  const Ledger::Usage& usage = ledger.usage();
  const auto differ = [](const char* what, std::uint64_t client, std::uint64_t aborted,
                         std::uint64_t engines) -> Violation {
    if (client + aborted == engines) return std::nullopt;
    return fmt::format("{}: {} by usage and {} in aborted answers, but {} by the engines", what, client, aborted,
                       engines);
  };
  if (Violation v = differ("answers", usage.answers, 0, sum.finished)) return v;
  if (Violation v = differ("cached tokens", usage.cached_tokens, lost.cached_tokens, sum.prefix_hit_tokens)) return v;
  if (Violation v = differ("output tokens", usage.completion_tokens, lost.output_tokens, sum.generated_tokens)) {
    return v;
  }
  if (usage.prompt_tokens > sum.prompt_tokens || (sum.aborted == 0 && usage.prompt_tokens != sum.prompt_tokens)) {
    return fmt::format("prompt tokens: {} by usage, {} admitted by the engines", usage.prompt_tokens,
                       sum.prompt_tokens);
  }
  return std::nullopt;
}

}  // namespace kvist::simulation

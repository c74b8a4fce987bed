// Requests that wait at the gateway until a worker has room for them.
#include <algorithm>
#include <cmath>
#include <utility>

#include "kvist/dispatch/dispatcher.h"

namespace kvist::dispatch {
namespace {

/// What begins although no worker has room may take this part of the fleet's time. With one half, conversations that
/// need twice the memory evicted each other as if nobody were held.
constexpr double kOverdueShare = 0.2;
/// Time constant of the share of the fleet's time that goes into prefill: some prompts.
constexpr double kPrefillSeconds = 10;

}  // namespace

// One that a proxy carries is not held: the proxy waits for a decision, and not for an answer.
bool Dispatcher::may_hold(const RequestProfile& profile) const {
  return options_.hold.enabled && router_->mode() == spec::RoutingMode::kKv && router_->working_set() != nullptr &&
         profile.generates && !profile.admission.exempt && !profile.carried;
}

void Dispatcher::measure_prefill(TimePoint now) {
  const double routed_ms = router_->forecaster().routed_prefill_ms();
  lately_prefill_ms_ *= std::exp(-to_seconds(now - prefill_measured_) / kPrefillSeconds);
  lately_prefill_ms_ += routed_ms - std::exchange(routed_prefill_ms_, routed_ms);
  prefill_measured_ = now;
}

HoldCheck Dispatcher::hold_check(const RequestProfile& profile, TimePoint now) {
  measure_prefill(now);
  const auto workers = static_cast<double>(std::max<std::size_t>(1, fleet_->usable()));
  return {*router_->working_set(),
          {.prompt_tokens = profile.prompt_tokens,
           .blocks = profile.blocks,
           .block_size = router_->block_size(),
           .answer_tokens = router_->forecaster().output_lengths().mean_tokens(),
           .prefill_share = lately_prefill_ms_ / 1e3 / kPrefillSeconds / workers,
           .others_wait = !holds_.empty()}};
}

Arrived Dispatcher::start_or_hold(const RequestProfile& profile, TimePoint now) {
  if (!may_hold(profile) || !has_room()) return {.started = start(profile, now)};
  budget_.on_request(now);
  router_->working_set()->expire(now);
  HoldCheck check = hold_check(profile, now);
  auto started = try_start(profile, std::nullopt, now, &check);
  measure_prefill(now);
  if (started) return {.started = std::move(started)};
  ++counters_.held;
  demand_.on_held();
  return {.held = holds_.add(profile, check.service_ms(), now)};
}

std::vector<Released> Dispatcher::release(TimePoint now) {
  std::vector<Released> released;
  if (holds_.empty() || now - looked_ < kLookPause) return released;
  looked_ = now;
  router_->working_set()->expire(now);
  for (const HoldId id : holds_.next(now)) {
    const HeldRequest& held = holds_.at(id);
    HoldCheck check = hold_check(held.profile, now);
    // The mode may be another one since.
    auto started = try_start(held.profile, held.since, now, may_hold(held.profile) ? &check : nullptr);
    if (started) {
      released.push_back(let_go(id, *std::move(started), now));
    } else {
      holds_.set_service(id, check.service_ms());
    }
  }
  release_overdue(now, released);
  measure_prefill(now);
  return released;
}

// They come in the order in which they arrived. Without a bound on how often, all of them would begin at about the same
// time, and evict everything. One that cannot begin even so takes no time of the fleet; the next one is tried when they
// are looked at again, because where one is refused others would be too.
void Dispatcher::release_overdue(TimePoint now, std::vector<Released>& released) {
  Duration most = options_.hold.max_wait;
  if (options_.admission) most = std::min(most, options_.admission->max_wait);
  bool may_begin = now >= next_overdue_;
  while (!holds_.empty()) {
    const HoldId id = holds_.oldest();
    const HeldRequest& held = holds_.at(id);
    const Duration waited = now - held.since;
    if (waited < most || (!may_begin && !options_.admission)) return;
    ++counters_.held_too_long;
    if (std::exchange(may_begin, false)) {
      Started started = *try_start(held.profile, held.since, now, nullptr);
      const auto workers = static_cast<double>(std::max<std::size_t>(1, fleet_->usable()));
      if (started) next_overdue_ = now + from_milliseconds(held.service_ms / kOverdueShare / workers);
      released.push_back(let_go(id, std::move(started), now));
    } else {
      released.push_back(let_go(id, turn_away(admission_.refuse_held(held.profile.admission, waited)), now));
    }
  }
}

Released Dispatcher::let_go(HoldId id, Started started, TimePoint now) {
  counters_.held_time += now - holds_.at(id).since;
  holds_.erase(id);
  return {.id = id, .started = std::move(started)};
}

bool Dispatcher::drop(HoldId id, TimePoint now) {
  if (!holds_.contains(id)) return false;
  counters_.held_time += now - holds_.at(id).since;
  counters_.without_worker.add(Outcome::kClientGone);
  return holds_.erase(id);
}

std::vector<Released> Dispatcher::refuse_held(const Error& error, TimePoint now) {
  std::vector<Released> released;
  while (!holds_.empty())
    released.push_back(let_go(holds_.oldest(), turn_away(Refusal(error, Outcome::kRejected)), now));
  return released;
}

}  // namespace kvist::dispatch

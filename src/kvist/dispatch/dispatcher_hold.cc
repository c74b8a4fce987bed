// Requests that wait at the gateway until a worker has room for them.
#include <algorithm>
#include <utility>

#include "kvist/dispatch/dispatcher.h"

namespace kvist::dispatch {
namespace {

/// What begins although no worker has room may take this part of the fleet's time. With one half, conversations that
/// need twice the memory evicted each other as if nobody were held.
constexpr double kOverdueShare = 0.2;

}  // namespace

// One that a proxy carries is not held: the proxy waits for a decision, and not for an answer.
bool Dispatcher::may_hold(const RequestProfile& profile) const {
  return options_.hold && router_->mode() == spec::RoutingMode::kKv && router_->has_working_set() &&
         profile.generates && !profile.admission.exempt && !profile.carried;
}

void Dispatcher::measure_prefill(TimePoint now) {
  prefill_.measure(router_->forecaster().routed_prefill_ms(), now);
  recomputed_.measure(router_->recomputed_prefill_ms(), now);
}

HoldCheck Dispatcher::hold_check(const RequestProfile& profile, TimePoint now) {
  measure_prefill(now);
  return {*router_,
          {.prompt_tokens = profile.prompt_tokens,
           .blocks = profile.blocks,
           .block_size = router_->block_size(),
           .answer_tokens = router_->forecaster().output_lengths().mean_tokens(),
           .prefill_share = prefill_.share(fleet_->usable().workers),
           .recomputed_share = recomputed_.share(fleet_->usable().workers),
           .others_wait = !holds_.empty()},
          now};
}

Arrived Dispatcher::start_or_hold(const RequestProfile& profile, TimePoint now) {
  if (!may_hold(profile) || !has_room()) return {.started = start(profile, now)};
  budget_.on_request(now);
  HoldCheck check = hold_check(profile, now);
  auto started = try_start(profile, std::nullopt, now, &check);
  measure_prefill(now);
  if (started) return {.started = std::move(started)};
  demand_.on_held();
  const TimePoint latest = latest_of(profile, check.service_ms(), now);
  if (latest <= now) return {.started = turn_away(late_refusal(profile, now, now))};
  ++counters_.held;
  return {.held = holds_.add(profile, check.service_ms(), now, latest)};
}

// What is left of its time has to be enough for its prompt: otherwise a worker would begin what nobody waits for, and
// be blamed for not having done it in time. The end of a client's patience is one here where admission is off too,
// because it is not a worker's queue that lets the client wait.
TimePoint Dispatcher::latest_of(const RequestProfile& profile, double service_ms, TimePoint came) const {
  TimePoint end = profile.deadline;
  const Duration within = profile.admission.first_token_within;
  if (within > Duration(0)) end = std::min(end, came + within);
  return admission_.has_learned() ? end - from_milliseconds(service_ms) : end;
}

void Dispatcher::refuse_late(TimePoint now, std::vector<Released>& released) {
  while (const std::optional<HoldId> id = holds_.late(now)) {
    const HeldRequest& held = holds_.at(*id);
    released.push_back(let_go(*id, turn_away(late_refusal(held.profile, held.since, now)), now));
  }
}

Refusal Dispatcher::late_refusal(const RequestProfile& profile, TimePoint came, TimePoint now) {
  const Duration within = profile.admission.first_token_within;
  if (within > Duration(0) && came + within < profile.deadline)
    return admission_.refuse_late(profile.admission, now - came);
  return {{ErrorCode::kDeadlineExceeded, "no worker had room for the request in time"}, Outcome::kTimedOut};
}

std::vector<Released> Dispatcher::release(TimePoint now) {
  std::vector<Released> released;
  if (holds_.empty() || now - looked_ < kLookPause) return released;
  looked_ = now;
  refuse_late(now, released);
  for (const HoldId id : holds_.next(now)) {
    const HeldRequest& held = holds_.at(id);
    HoldCheck check = hold_check(held.profile, now);
    // The mode may be another one since.
    auto started = try_start(held.profile, held.since, now, may_hold(held.profile) ? &check : nullptr);
    if (started) {
      released.push_back(let_go(id, *std::move(started), now));
    } else {
      holds_.update(id, check.service_ms(), latest_of(held.profile, check.service_ms(), held.since));
    }
  }
  release_overdue(now, released);
  measure_prefill(now);
  return released;
}

// They come in the order in which they arrived, as far as their priorities allow. Without a bound on how often, all of
// them would begin at about the same time, and evict everything. One that cannot begin even so takes no time of the
// fleet; the next one is tried when they are looked at again, because where one is refused others would be too.
void Dispatcher::release_overdue(TimePoint now, std::vector<Released>& released) {
  Duration most = options_.hold->max_wait;
  if (options_.admission) most = std::min(most, options_.admission->max_wait);
  bool may_begin = now >= next_overdue_;
  while (may_begin || options_.admission) {
    const std::optional<HoldId> id = holds_.overdue(most, now);
    if (!id) return;
    const HeldRequest& held = holds_.at(*id);
    const Duration waited = now - held.since;
    ++counters_.held_too_long;
    if (std::exchange(may_begin, false)) {
      Started started = *try_start(held.profile, held.since, now, nullptr);
      const auto workers = static_cast<double>(std::max<std::size_t>(1, fleet_->usable().workers));
      if (started) next_overdue_ = now + from_milliseconds(held.service_ms / kOverdueShare / workers);
      released.push_back(let_go(*id, std::move(started), now));
    } else {
      released.push_back(let_go(*id, turn_away(admission_.refuse_held(held.profile.admission, waited)), now));
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

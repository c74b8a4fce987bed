#include "kvist/dispatch/wait_admission.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace kvist::dispatch {
namespace {

/// About how many of the latest requests the mean counts.
constexpr double kMeanOf = 64;
/// With fewer first tokens and whole answers, the forecasts are those of the prior.
constexpr std::uint64_t kEnoughObservations = 8;
/// How many requests a worker is assumed to have room for if its number of slots is unknown: vLLM's default.
constexpr std::uint32_t kAssumedSlots = 256;

std::int32_t told_apart(std::int32_t priority) {
  return std::clamp(priority, -WaitAdmission::kMostPriority, WaitAdmission::kMostPriority);
}

std::size_t priority_index(std::int32_t priority) {
  const std::int32_t from_the_best = told_apart(priority) + WaitAdmission::kMostPriority;
  return static_cast<std::size_t>(from_the_best);
}

double priority_factor(std::int32_t priority) {
  const std::int32_t steps = told_apart(priority);
  return steps > 0 ? std::exp2(-steps) : 2 - std::exp2(steps);
}

Duration retry_after(double over_ms) {
  constexpr Duration kLeast = std::chrono::seconds(1);
  const double most_ms = to_milliseconds(WaitAdmission::kLongestRetryAfter);
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(from_milliseconds(std::min(over_ms, most_ms)));
  return std::max(kLeast, Duration(seconds));
}

std::uint32_t slots_of(const routing::Candidate& candidate) {
  return candidate.limits.max_batch_size == 0 ? kAssumedSlots : candidate.limits.max_batch_size;
}

/// How long a request's first token takes without a wait.
double own_ms(const routing::Candidate& candidate) {
  return std::max(0.0, candidate.forecast.ttft_ms - candidate.forecast.wait_ms());
}

/// The forecast knows which running requests will end soon. If more requests wait than there are slots, it does not
/// know that they will run one batch after the other.
double slot_wait_ms(const routing::Candidate& candidate, double answer_tokens) {
  const double slots = candidate.limits.max_batch_size;
  const double before = candidate.load.requests + 1 - slots;
  if (slots == 0 || before <= slots) return candidate.forecast.slot_wait_ms;
  const double between_endings_ms = answer_tokens * candidate.forecast.step_ms / slots;
  return std::max(candidate.forecast.slot_wait_ms, (before - slots / 2) * between_endings_ms);
}

std::string_view words_of(RefusalReason reason) {
  switch (reason) {
    case RefusalReason::kInFlight:
    case RefusalReason::kWait:
      break;
    case RefusalReason::kDeadline:
      return "its client waits";
    case RefusalReason::kPriority:
      return "a request of this priority may wait";
    case RefusalReason::kShare:
      return "a request may wait whose key has used more than its share";
  }
  return "a request may wait";
}

}  // namespace

std::string_view to_string(RefusalReason reason) {
  constexpr std::array<std::string_view, kRefusalReasons> kNames = {"in_flight", "wait", "deadline", "priority",
                                                                    "share"};
  return kNames[static_cast<std::size_t>(reason)];
}

WaitAdmission::WaitAdmission(const spec::AdmissionSpec& spec, const routing::Forecaster& forecaster,
                             std::size_t workers)
    : forecaster_(&forecaster), max_wait_ms_(to_milliseconds(spec.max_wait)), queues_(workers) {
  if (spec.standing_wait) configured_standing_ms_ = to_milliseconds(*spec.standing_wait);
}

WaitAdmission::Check WaitAdmission::check(const AdmissionProfile& profile, TimePoint now,
                                          std::optional<TimePoint> came) {
  came_[priority_index(profile.priority)] = now;
  if (!came) {
    forget_older(now);
    ++asked_lately_;
  }
  return {*this, profile, shares_.on_request(profile.tenant, now), now, came};
}

void WaitAdmission::on_others(std::uint64_t asked, std::uint64_t refused, TimePoint now) {
  forget_older(now);
  asked_lately_ += static_cast<double>(asked);
  refused_lately_ += static_cast<double>(refused);
}

void WaitAdmission::forget_older(TimePoint now) {
  const double kept = std::exp(-(now - asked_at_) / kRefusedMemory);
  asked_lately_ *= kept;
  refused_lately_ *= kept;
  asked_at_ = now;
}

bool WaitAdmission::Check::admits(const routing::Candidate& candidate) {
  WaitAdmission& all = *admission_;
  const double wait_ms = all.wait_ms(candidate, now_);
  Queue& queue = all.queues_[candidate.worker.value()];
  const double standing_ms = all.mean_standing_wait_ms(candidate);
  all.look_at(queue, wait_ms / standing_ms - 1, now_);
  Least found{.wait_ms = wait_ms};
  found.limit_ms = limit_ms(candidate, wait_ms, found.reason);
  found.over_ms = wait_ms - found.limit_ms;
  const bool is_choice = !choice_prefill_ms_;
  if (is_choice) choice_prefill_ms_ = candidate.forecast.prefill_ms;
  if (is_choice && !came_) {
    all.seen_ = std::min(all.seen_ + 1, kMeanOf);
    all.own_ms_ += (own_ms(candidate) - all.own_ms_) / all.seen_;
    all.work_ms_ += (all.work_ms(candidate) - all.work_ms_) / all.seen_;
    all.wait_ms_ = wait_ms;
    all.limit_ms_ = queue.stands ? standing_ms : all.max_wait_ms_;
  }
  if (candidate.load.requests == 0) {
    queue = {};
    return true;
  }
  if (!is_choice && !may_move_to(candidate)) return false;
  if (found.over_ms <= 0) {
    const auto reason = queue.stands ? takes_kept_slot(candidate) : std::nullopt;
    if (!reason) return true;
    found.reason = *reason;
    found.over_ms = found.limit_ms = 0;
  }
  if (is_choice) waits_too_long_ = found.reason == RefusalReason::kWait;
  if (is_choice && waits_too_long_ && is_anyones() && all.is_probe(candidate, now_)) return true;
  if (!came_) queue.turned_down = now_;
  if (!least_ || found.over_ms < least_->over_ms) least_ = found;
  return false;
}

// `reason` becomes the first bound that the wait exceeds.
double WaitAdmission::Check::limit_ms(const routing::Candidate& candidate, double wait_ms,
                                      RefusalReason& reason) const {
  const bool is_light = share_ <= kLightKey;
  const bool stands = admission_->queues_[candidate.worker.value()].stands && !is_light;
  double limit_ms = stands ? admission_->standing_wait_ms(candidate) : admission_->max_wait_ms_;
  const auto lower = [&](double to_ms, RefusalReason why) {
    if (to_ms < wait_ms && wait_ms <= limit_ms) reason = why;
    limit_ms = std::min(limit_ms, to_ms);
  };
  const double factor = priority_factor(profile_->priority);
  limit_ms *= std::max(1.0, factor);
  if (factor < 1) lower(limit_ms * factor, RefusalReason::kPriority);
  if (share_ > 1) lower(limit_ms * std::max(kLeastShareFactor, 1 / share_), RefusalReason::kShare);
  const Duration left = profile_->first_token_within - (now_ - came_.value_or(now_));
  if (profile_->first_token_within > Duration(0) && !admission_->is_cold(candidate))
    lower(to_milliseconds(left) - own_ms(candidate), RefusalReason::kDeadline);
  return limit_ms;
}

bool WaitAdmission::Check::may_move_to(const routing::Candidate& candidate) const {
  return admission_->is_cold(candidate) || (!(request_.weighed && waits_too_long_) && is_cheap(candidate));
}

bool WaitAdmission::Check::is_cheap(const routing::Candidate& candidate) const {
  const auto not_cached = [&](std::uint32_t tokens) -> double {
    return tokens - std::min(tokens, candidate.cached_tokens);
  };
  const double missing = not_cached(request_.prompt_tokens);
  const double shared = not_cached(request_.shared_tokens);
  // A further copy serves its part of those who share it.
  const double copies = request_.copies + 1.0;
  const double part = kCopyNow * std::min(1.0, copies / (request_.sharers + 1.0));
  const double own_share = missing > 0 ? 1 - (1 - part) * std::min(1.0, shared / missing) : 1;
  const double prefill_ms = own_share * candidate.forecast.prefill_ms;
  const double beyond_ms = std::max(0.0, prefill_ms - *choice_prefill_ms_);
  return prefill_ms + kMovedEvictions * request_.recomputed * beyond_ms <=
         std::max(kMovedPrefill * *choice_prefill_ms_, admission_->own_ms_);
}

std::optional<RefusalReason> WaitAdmission::Check::takes_kept_slot(const routing::Candidate& candidate) const {
  const std::uint32_t slots = candidate.limits.max_batch_size;
  const bool is_over = share_ > 1;
  std::uint32_t kept = is_over ? 1 : 0;
  for (std::size_t i = 0; i < priority_index(profile_->priority); ++i) {
    const std::optional<TimePoint>& came = admission_->came_[i];
    if (came && now_ - *came <= kPriorityMemory) ++kept;
  }
  kept = std::min(kept, slots / kSlotsPerFreeOne);
  if (kept == 0 || candidate.load.requests + 1 + kept <= slots) return std::nullopt;
  return is_over ? RefusalReason::kShare : RefusalReason::kPriority;
}

// A request that is overdue shows that those behind it will be overdue too. It counts as overdue only after the wait of
// a standing queue, because no forecast is exact.
double WaitAdmission::wait_ms(const routing::Candidate& candidate, TimePoint now) const {
  if (candidate.load.requests == 0 || is_cold(candidate)) return 0;
  const double slot_ms = slot_wait_ms(candidate, forecaster_->output_lengths().mean_tokens());
  const double wait_ms = correction_.corrected_ms(slot_ms + candidate.forecast.queue_ms, short_wait_ms());
  const routing::PrefillQueue::Prompt* const oldest = forecaster_->prompts(candidate.worker).oldest_stream(now);
  if (oldest == nullptr) return wait_ms;
  return wait_ms + std::max(0.0, to_milliseconds(now - oldest->first_token) - mean_standing_wait_ms(candidate));
}

// Whether the oldest prompt holds up those behind it shows only if one of them is there. It may be computed beside
// them, or hang by itself; if nobody were let in, it would keep everybody out until it ends.
bool WaitAdmission::is_probe(const routing::Candidate& candidate, TimePoint now) const {
  const routing::PrefillQueue& prompts = forecaster_->prompts(candidate.worker);
  const routing::PrefillQueue::Prompt* const oldest = prompts.oldest_stream(now);
  if (oldest == nullptr) return false;
  const double waited_ms = to_milliseconds(now - oldest->routed);
  const double pause_ms = std::max(to_milliseconds(kLeastProbePause), kProbePause * waited_ms);
  if (to_milliseconds(now - forecaster_->last_routed(candidate.worker)) < pause_ms) return false;
  if (to_milliseconds(now - oldest->first_token) > mean_standing_wait_ms(candidate)) return true;
  // An engine that overtakes has the work of those who were overtaken too. So only who is short beside the oldest.
  const double oldest_ms = to_milliseconds(oldest->first_token - oldest->routed);
  return !prompts.keeps_order() && own_ms(candidate) < kProbeWork * oldest_ms;
}

// Whose bound is shorter than others' by its deadline, priority or share shall not wait longer than they.
bool WaitAdmission::Check::is_anyones() const {
  return profile_->first_token_within <= Duration(0) && priority_factor(profile_->priority) >= 1 && share_ <= 1;
}

bool WaitAdmission::is_cold(const routing::Candidate& candidate) const {
  return candidate.load.requests < slots_of(candidate) && candidate.forecast.has_slot && !has_learned();
}

bool WaitAdmission::has_learned() const {
  return forecaster_->latency().fleet().observations() >= kEnoughObservations;
}

void WaitAdmission::look_at(Queue& queue, double excess, TimePoint now) {
  Duration elapsed = now - queue.seen.value_or(now);
  if (excess > 0) elapsed = std::min(elapsed, kLongestGap);
  queue.excess_s = std::clamp(queue.excess_s + excess * to_seconds(elapsed), 0.0, to_seconds(kMostExcess));
  queue.seen = now;
  if (queue.excess_s > to_seconds(kStandingExcess)) {
    queue.stands = true;
  } else if (now - queue.turned_down > kLeastStanding) {
    queue.stands = false;
  }
}

double WaitAdmission::work_ms(const routing::Candidate& candidate) const {
  const double batch = std::min(candidate.load.requests + 1, slots_of(candidate));
  const double answer_ms = forecaster_->output_lengths().mean_tokens() * candidate.forecast.step_ms / batch;
  return candidate.forecast.prefill_ms + answer_ms;
}

double WaitAdmission::standing_wait_ms(const routing::Candidate& candidate) const {
  const double work_ms = this->work_ms(candidate);
  const double ratio = work_ms > 0 ? work_ms_ / work_ms : 1;
  return std::min(max_wait_ms_, mean_standing_wait_ms(candidate) * std::max(kLeastWorkFactor, ratio * ratio));
}

// Less the more is refused anyway: then the load is far above the capacity, and a queue that keeps the fleet busy is
// short. With a long one, a little more would be done, and everybody would wait for it.
double WaitAdmission::by_refused(double few, double many) const {
  constexpr double kEnough = 10;  // requests, to speak of a share of them
  const double refused = refused_lately_ / std::max(kEnough, asked_lately_);
  return std::lerp(few, many, std::clamp((refused - kFewRefused) / (kManyRefused - kFewRefused), 0.0, 1.0));
}

double WaitAdmission::standing_wait_ms() const {
  return standing_wait_ms(kLeastStandingWait);
}

double WaitAdmission::mean_standing_wait_ms(const routing::Candidate& candidate) const {
  return standing_wait_ms(candidate.load.requests < slots_of(candidate) ? kLeastWaitBesideSlots : kLeastStandingWait);
}

double WaitAdmission::standing_wait_ms(Duration least) const {
  if (configured_standing_ms_) return std::min(*configured_standing_ms_, max_wait_ms_);
  const double least_ms = by_refused(to_milliseconds(least), to_milliseconds(kLeastShortWait));
  return std::min(std::max(by_refused(kStandingMultiple, kShortMultiple) * own_ms_, least_ms), max_wait_ms_);
}

void WaitAdmission::on_first_token(double forecast_wait_ms, double forecast_ttft_ms, double ttft_ms) {
  if (forecast_wait_ms <= 0) return;
  const double measured_ms = std::max(0.0, ttft_ms - (forecast_ttft_ms - forecast_wait_ms));
  correction_.observe(forecast_wait_ms, measured_ms, short_wait_ms());
}

double WaitAdmission::short_wait_ms() const {
  return std::max(standing_wait_ms(kLeastShortWait), to_milliseconds(kLeastShortWait));
}

std::size_t WaitAdmission::standing() const {
  return static_cast<std::size_t>(std::ranges::count(queues_, true, &Queue::stands));
}

Refusal WaitAdmission::refuse(const Check& check) {
  const Check::Least least = check.least_.value_or(Check::Least{});
  if (!check.came_) {
    ++refused_lately_;
    ++refused_for_wait_;
  }
  count(check.profile_->key_class, least.reason);
  return {{ErrorCode::kResourceExhausted,
           fmt::format("the request would wait {:.1f} s for its first token to be begun, and {} {:.1f} s now",
                       least.wait_ms / 1e3, words_of(least.reason), std::max(0.0, least.limit_ms) / 1e3)},
          Outcome::kRejected,
          retry_after(least.over_ms)};
}

Refusal WaitAdmission::refuse_in_flight(const AdmissionProfile& profile, std::size_t in_flight) {
  count(profile.key_class, RefusalReason::kInFlight);
  return {{ErrorCode::kUnavailable,
           fmt::format("{} requests are in flight, which is the most this gateway takes", in_flight)},
          Outcome::kRejected};
}

Refusal WaitAdmission::refuse_held(const AdmissionProfile& profile, Duration waited) {
  count(profile.key_class, RefusalReason::kWait);
  return {{ErrorCode::kResourceExhausted,
           fmt::format("the request waited {:.1f} s, and no worker's cache had room for it", to_seconds(waited))},
          Outcome::kRejected,
          retry_after(to_milliseconds(waited))};
}

Refusal WaitAdmission::refuse_late(const AdmissionProfile& profile, Duration waited) {
  count(profile.key_class, RefusalReason::kDeadline);
  return {{ErrorCode::kResourceExhausted,
           fmt::format("the request waited {:.1f} s, and its client waits {:.1f} s for its first token",
                       to_seconds(waited), to_seconds(profile.first_token_within))},
          Outcome::kRejected,
          retry_after(to_milliseconds(waited))};
}

void WaitAdmission::count(const std::string& key_class, RefusalReason reason) {
  const bool is_new = !refused_.contains(key_class);
  RefusalCounts& counts = refused_[is_new && refused_.size() >= kMostClasses ? "(others)" : key_class];
  ++counts[static_cast<std::size_t>(reason)];
}

}  // namespace kvist::dispatch

#include "kvist/dispatch/hold_check.h"

#include <algorithm>
#include <utility>

namespace kvist::dispatch {

bool HoldCheck::admits(const routing::Candidate& candidate) {
  const routing::Forecast& forecast = candidate.forecast;
  service_ms_ = std::min(service_ms_, std::max(0.0, forecast.ttft_ms - forecast.slot_wait_ms - forecast.queue_ms));
  if (!begins_at(candidate)) {
    holds_ = true;
    return false;
  }
  return then_ == nullptr || then_->admits(candidate);
}

bool HoldCheck::begins_at(const routing::Candidate& candidate) {
  const bool is_choice = std::exchange(is_choice_, false);
  if (candidate.load.requests == 0) return true;
  if (!is_choice) return choice_begins_ || has_room(candidate);
  const std::uint32_t slots = candidate.limits.max_batch_size;
  choice_begins_ = (slots > 0 && candidate.load.requests >= slots) || has_time() || has_room(candidate);
  return choice_begins_;
}

bool HoldCheck::has_time() const {
  if (request_.others_wait) return request_.prefill_share < kStillBusy;
  return request_.prefill_share < kBusy || request_.recomputed_share < kRecomputed;
}

bool HoldCheck::has_room(const routing::Candidate& candidate) {
  if (!candidate.forecast.has_slot) return false;
  const bool goes_on = 2 * std::uint64_t{candidate.cached_tokens} > request_.prompt_tokens;
  return goes_on || fits(candidate);
}

// What ended counts by the share of prompts that go on: where nobody comes back, nothing is kept for anyone.
bool HoldCheck::fits(const routing::Candidate& candidate) {
  if (candidate.limits.kv_blocks == 0) return true;
  const double returns = set().recent().return_share();
  const auto in_flight = static_cast<double>(candidate.load.prompt_blocks);
  const double ended = std::max(0.0, static_cast<double>(set().blocks(candidate.worker)) - in_flight);
  const double answers =
      (static_cast<double>(candidate.load.output_tokens) + request_.answer_tokens) / request_.block_size;
  const double room = (1 - kReserve * returns) * candidate.limits.kv_blocks - in_flight - returns * ended - answers;
  const auto asked = static_cast<double>(routing::view(request_.blocks).size());
  return asked <= room || asked - depth(candidate.worker) <= room;
}

routing::WorkingSet& HoldCheck::set() {
  if (set_ == nullptr) set_ = &router_->open_working_set(now_);
  return *set_;
}

// Looked up once for all workers of a large fleet.
std::uint32_t HoldCheck::depth(WorkerId worker) {
  if (!depths_) depths_ = set().depths(request_.blocks);
  return (*depths_)[worker.value()];
}

}  // namespace kvist::dispatch

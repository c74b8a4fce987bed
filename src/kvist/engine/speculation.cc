#include "kvist/engine/speculation.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "kvist/base/check.h"

namespace kvist::engine {
namespace {

/// Lower end of the Wilson score interval (E. B. Wilson, 1927), one-sided 95 %.
double wilson_lower_bound(std::uint32_t successes, std::uint32_t trials) {
  if (trials == 0) return 0;
  constexpr double kZ = 1.645;
  const double n = trials;
  const double p = successes / n;
  const double spread = kZ * std::sqrt(p * (1 - p) / n + kZ * kZ / (4 * n * n));
  return std::max(0.0, (p + kZ * kZ / (2 * n) - spread) / (1 + kZ * kZ / n));
}

void check_length(std::uint32_t drafts) {
  KVIST_CHECK(drafts <= SpeculationPolicy::kMostDrafts,
              fmt::format("{} drafts, at most {} are possible", drafts, SpeculationPolicy::kMostDrafts));
}

}  // namespace

std::unique_ptr<SpeculationPolicy> make_speculation_policy(const spec::SpeculationSpec& spec,
                                                           const perfmodel::StepTimeModel& step_time) {
  if (!spec.enabled || spec.draft_tokens == 0) return nullptr;
  if (spec.draft_length == spec::DraftLength::kAdaptive) {
    return std::make_unique<AdaptiveDraftLength>(spec.draft_tokens, step_time);
  }
  return std::make_unique<FixedDraftLength>(spec.draft_tokens);
}

FixedDraftLength::FixedDraftLength(std::uint32_t drafts) : drafts_(drafts) {
  check_length(drafts);
}

AdaptiveDraftLength::AdaptiveDraftLength(std::uint32_t most, perfmodel::StepTimeModel step_time)
    : most_(most), step_time_(std::move(step_time)) {
  check_length(most);
}

double AdaptiveDraftLength::acceptance(std::uint32_t position) const {
  while (position > 0 && positions_[position].verified < kEnough) --position;
  const Counts& counts = positions_[position];
  return counts.verified < kEnough ? 0 : wilson_lower_bound(counts.accepted, counts.verified);
}

std::uint32_t AdaptiveDraftLength::draft_length(const perfmodel::StepLoad& plain) {
  if (gave_up_) return 0;
  const double plain_time = to_seconds(step_time_.step_time(plain));
  std::uint32_t best = 0;
  double best_gain = 0;
  double tokens = 1;   // per sequence
  double reached = 1;  // probability that all drafts so far are accepted
  perfmodel::StepLoad load = plain;
  for (std::uint32_t drafts = 1; drafts <= most_; ++drafts) {
    reached *= acceptance(drafts - 1);
    if (reached == 0) break;
    tokens += reached;
    load.draft_passes = drafts;
    load.draft_tokens = std::uint64_t{drafts} * plain.decode_sequences;
    const double gain = tokens * plain_time / to_seconds(step_time_.step_time(load)) - 1;
    if (best != 0 && gain <= best_gain) continue;
    best = drafts;
    best_gain = gain;
  }
  is_on_ = best > 0 && best_gain >= (is_on_ ? 0 : kGainToSwitchOn);
  if (is_on_) return best;
  if (++steps_since_probe_ < kStepsBetweenProbes) return 0;
  steps_since_probe_ = 0;
  return most_;
}

void AdaptiveDraftLength::on_verified(std::uint32_t drafted, std::uint32_t accepted) {
  if (drafted == 0) return;
  for (std::uint32_t i = 0; i < std::min(drafted, accepted + 1); ++i) {
    positions_[i].verified += 1;
    positions_[i].accepted += i < accepted ? 1 : 0;
  }
  verifications_ += 1;
  tokens_ += accepted + 1;
  if (verifications_ >= kVerificationsToGiveUp &&
      static_cast<double>(tokens_) < kHopelessLength * static_cast<double>(verifications_)) {
    gave_up_ = true;
    is_on_ = false;
  }
  if (verifications_ < kMemory) return;
  for (Counts& counts : positions_) {
    counts.verified /= 2;
    counts.accepted /= 2;
  }
  verifications_ /= 2;
  tokens_ /= 2;
}

}  // namespace kvist::engine

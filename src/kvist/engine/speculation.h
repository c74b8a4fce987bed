// How many tokens to draft, the part of speculative decoding that the scheduler decides.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "kvist/engine/token_run.h"
#include "kvist/perfmodel/step_load.h"
#include "kvist/perfmodel/step_time_model.h"
#include "kvist/spec/speculation_spec.h"

namespace kvist::engine {

/// Chooses the draft length of each step, and learns how many drafts were accepted. Threads: one.
class SpeculationPolicy {
 public:
  /// A TokenRun holds the drafts and the token after them.
  static constexpr std::uint32_t kMostDrafts = TokenRun::kCapacity - 1;

  virtual ~SpeculationPolicy() = default;
  /// The number of tokens to draft for every decoding sequence of the next step, at most kMostDrafts. `plain` is about
  /// the load of the step without drafts. Called once per step that decodes.
  [[nodiscard]] virtual std::uint32_t draft_length(const perfmodel::StepLoad& plain) = 0;
  /// Of `drafted` tokens of one sequence, the first `accepted` were accepted.
  virtual void on_verified(std::uint32_t drafted, std::uint32_t accepted) = 0;
};

/// The policy in a worker's settings; null if it does not speculate.
[[nodiscard]] std::unique_ptr<SpeculationPolicy> make_speculation_policy(const spec::SpeculationSpec& spec,
                                                                         const perfmodel::StepTimeModel& step_time);

/// A fixed draft length, the default of vLLM and TensorRT-LLM.
class FixedDraftLength final : public SpeculationPolicy {
 public:
  explicit FixedDraftLength(std::uint32_t drafts);
  [[nodiscard]] std::uint32_t draft_length(const perfmodel::StepLoad& /*plain*/) override { return drafts_; }
  void on_verified(std::uint32_t /*drafted*/, std::uint32_t /*accepted*/) override {}

 private:
  std::uint32_t drafts_;
};

/// The draft length that gives the most tokens per second according to the step-time model: the k of 0 to `most` with
/// the largest E[tokens](k) / T(k), where E[tokens](k) = 1 + sum over j <= k of a_1 x ... x a_j, and a_i is a lower
/// bound of the probability that draft i is accepted when those before it were. It starts with drafting off, switches
/// it on for a gain of 5 % and off when there is no gain, tries drafts on one step in a hundred while it is off, and
/// gives up for good once steps with drafts give less than 1.05 tokens per sequence.
class AdaptiveDraftLength final : public SpeculationPolicy {
 public:
  /// Gain in tokens per second that switches drafting on; any loss switches it off.
  static constexpr double kGainToSwitchOn = 0.05;
  /// While drafting is off, one step in so many tries it: 1 %.
  static constexpr std::uint64_t kStepsBetweenProbes = 100;
  /// Tokens per sequence and step below which a drafter is not worth its probes, and the number of verifications needed
  /// to conclude that.
  static constexpr double kHopelessLength = 1.05;
  static constexpr std::uint32_t kVerificationsToGiveUp = 1'000;
  /// A position's own acceptance counts after so many verifications; until then that of the position before it does.
  static constexpr std::uint32_t kEnough = 32;
  /// Counts are halved at so many verifications, so that the estimate follows changes of the texts.
  static constexpr std::uint32_t kMemory = 8'192;

  AdaptiveDraftLength(std::uint32_t most, perfmodel::StepTimeModel step_time);
  [[nodiscard]] std::uint32_t draft_length(const perfmodel::StepLoad& plain) override;
  void on_verified(std::uint32_t drafted, std::uint32_t accepted) override;

  [[nodiscard]] bool is_on() const { return is_on_; }
  [[nodiscard]] bool gave_up() const { return gave_up_; }
  /// Lower bound (Wilson, one-sided 95 %) of the acceptance of draft `position`, from 0.
  [[nodiscard]] double acceptance(std::uint32_t position) const;

 private:
  struct Counts {
    std::uint32_t verified = 0;
    std::uint32_t accepted = 0;
  };

  std::uint32_t most_;
  perfmodel::StepTimeModel step_time_;
  std::array<Counts, kMostDrafts> positions_{};
  bool is_on_ = false;
  bool gave_up_ = false;
  std::uint64_t steps_since_probe_ = 0;
  std::uint64_t verifications_ = 0;  // of sequences, and the tokens that they gave
  std::uint64_t tokens_ = 0;
};

}  // namespace kvist::engine

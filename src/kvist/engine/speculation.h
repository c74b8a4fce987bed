// How many tokens to draft: speculative decoding as far as the scheduler decides it.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "kvist/engine/token_run.h"
#include "kvist/perfmodel/step_load.h"
#include "kvist/perfmodel/step_time_model.h"
#include "kvist/spec/speculation_spec.h"

namespace kvist::engine {

/// Chooses the draft length of each step and is told what became of the drafts. One thread.
class SpeculationPolicy {
 public:
  /// A run of tokens holds the drafts and the token after them.
  static constexpr std::uint32_t kMostDrafts = TokenRun::kCapacity - 1;

  virtual ~SpeculationPolicy() = default;
  /// Tokens to draft for every decoding sequence of the step about to be planned, whose load without drafts is about
  /// `plain`; at most kMostDrafts. Called once per step that decodes.
  [[nodiscard]] virtual std::uint32_t draft_length(const perfmodel::StepLoad& plain) = 0;
  /// Of `drafted` tokens of one sequence, the first `accepted` were right.
  virtual void on_verified(std::uint32_t drafted, std::uint32_t accepted) = 0;
};

/// What a worker's settings ask for; null where it does not speculate.
[[nodiscard]] std::unique_ptr<SpeculationPolicy> make_speculation_policy(const spec::SpeculationSpec& spec,
                                                                         const perfmodel::StepTimeModel& step_time);

/// Always the same, as vLLM and TensorRT-LLM do it by default.
class FixedDraftLength final : public SpeculationPolicy {
 public:
  explicit FixedDraftLength(std::uint32_t drafts);
  [[nodiscard]] std::uint32_t draft_length(const perfmodel::StepLoad& /*plain*/) override { return drafts_; }
  void on_verified(std::uint32_t /*drafted*/, std::uint32_t /*accepted*/) override {}

 private:
  std::uint32_t drafts_;
};

/// The draft length that brings the most tokens per second by the model of time: the k of 0 to `most` with the largest
/// E[tokens](k) / T(k), where E[tokens](k) = 1 + sum over j <= k of a_1 x ... x a_j, and a_i is a lower bound of the
/// probability that draft i is accepted when those before it were. It starts switched off, switches on for a gain of 5
/// % and off when there is none, tries drafts on one step in a hundred while it is off, and gives up for good once
/// steps with drafts bring less than 1.05 tokens per sequence.
class AdaptiveDraftLength final : public SpeculationPolicy {
 public:
  /// Gain in tokens per second that switches drafting on; any loss switches it off.
  static constexpr double kGainToSwitchOn = 0.05;
  /// While off, one step in so many tries drafts: 1 %.
  static constexpr std::uint64_t kStepsBetweenProbes = 100;
  /// Tokens per sequence and step below which a drafter is not worth its probes, and the verifications that prove it.
  static constexpr double kHopelessLength = 1.05;
  static constexpr std::uint32_t kVerificationsToGiveUp = 1'000;
  /// Verifications of a position before its own acceptance counts; until then that of the position before it does.
  static constexpr std::uint32_t kEnough = 32;
  /// Counts are halved at so many verifications, so that the estimate follows a change of the load's texts.
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
  std::uint64_t verifications_ = 0;  // of sequences, and the tokens they brought
  std::uint64_t tokens_ = 0;
};

}  // namespace kvist::engine

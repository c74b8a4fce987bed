// How many tokens to draft, by the measured durations of steps.
#pragma once

#include <array>
#include <cstdint>

#include "kvist/base/time.h"
#include "kvist/engine/speculation.h"

namespace kvist::engine::cpu {

/// For a drafter that costs nothing and often proposes nothing (prompt look-up). A step takes a + b x rows, fitted to
/// the latest steps; draft j is accepted, with all before it, with probability A_j, which is counted. One more draft
/// row is worth its time if it adds tokens at a higher rate than the step without it: A_j / b > n E / T, for n
/// sequences that gain E tokens each in T. A single sequence, whose step is bound by reading weights, therefore drafts
/// as long as any draft is ever accepted; a full batch, bound by arithmetic, does not draft. While it does not draft,
/// it tries one step in kProbe.
///
/// The choice depends on the clock, but no answer depends on the choice (sampler.h). Threads: one.
class MeasuredDraftLength final : public SpeculationPolicy {
 public:
  static constexpr std::uint64_t kProbe = 64;

  /// Drafts at most `most` tokens. Requires: most <= kMostDrafts.
  explicit MeasuredDraftLength(std::uint32_t most);

  [[nodiscard]] std::uint32_t draft_length(const perfmodel::StepLoad& plain) override;
  void on_verified(std::uint32_t drafted, std::uint32_t accepted) override;
  /// Reports a step that computed `rows` rows, prompt tokens and actual drafts included.
  void on_step(std::uint64_t rows, Duration took);

  /// Estimated probability that draft `position`, from 0, is accepted if those before it are.
  [[nodiscard]] double acceptance(std::uint32_t position) const;

 private:
  struct Counts {
    double verified = 4;  // the prior: one half, with the weight of four drafts
    double accepted = 2;
  };
  struct Line {
    double fixed = 0;
    double per_row = 0;
  };
  [[nodiscard]] Line step_time() const;

  std::uint32_t most_;
  std::array<Counts, kMostDrafts> positions_{};
  std::uint64_t steps_since_draft_ = 0;
  // Decayed sums over steps: weight, rows, time and their products.
  double weight_ = 0;
  double rows_ = 0;
  double time_ = 0;
  double rows_rows_ = 0;
  double rows_time_ = 0;
};

}  // namespace kvist::engine::cpu

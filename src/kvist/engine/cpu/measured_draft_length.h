// How many tokens to draft, by what steps really took.
#pragma once

#include <array>
#include <cstdint>

#include "kvist/base/time.h"
#include "kvist/engine/speculation.h"

namespace kvist::engine::cpu {

/// For a drafter that costs nothing and often has nothing to say (prompt look-up). A step takes a + b x rows, fitted to
/// the latest steps; draft j is right, with all before it, with probability A_j, counted. One more draft row is worth
/// its time where it brings more tokens per second than the step does as it is: A_j / b > n E / T, for n sequences that
/// bring E tokens each in T. A lone sequence, whose step is bound by reading weights, so drafts as long as anything is
/// ever right; a full batch, bound by arithmetic, not at all. While it drafts nothing it tries one step in kProbe.
///
/// What it chooses depends on the clock, and no answer depends on what it chooses (sampler.h). Threads: one.
class MeasuredDraftLength final : public SpeculationPolicy {
 public:
  static constexpr std::uint64_t kProbe = 64;

  /// `most` tokens at most, at most kMostDrafts.
  explicit MeasuredDraftLength(std::uint32_t most);

  [[nodiscard]] std::uint32_t draft_length(const perfmodel::StepLoad& plain) override;
  void on_verified(std::uint32_t drafted, std::uint32_t accepted) override;
  /// A step that computed so many rows, prompt tokens and real drafts included.
  void on_step(std::uint64_t rows, Duration took);

  /// Estimated probability that draft `position`, from 0, is right if those before it are.
  [[nodiscard]] double acceptance(std::uint32_t position) const;

 private:
  struct Counts {
    double verified = 4;  // begins with a guess of one half, worth four drafts
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
  // Of steps, the latest counting most: weight, rows, time and their products.
  double weight_ = 0;
  double rows_ = 0;
  double time_ = 0;
  double rows_rows_ = 0;
  double rows_time_ = 0;
};

}  // namespace kvist::engine::cpu

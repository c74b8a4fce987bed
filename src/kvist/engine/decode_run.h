// The sequences of a batch that only decode, advanced together. Private to the engine.
#pragma once

#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "kvist/base/id.h"
#include "kvist/engine/answer_source.h"
#include "kvist/engine/sequence.h"
#include "kvist/engine/step.h"

namespace kvist::engine {

/// Sequences of which each step computes one token and samples the next. Where they are follows from the number of the
/// step, so a step touches only those of which something is due: a full block needs the next one, a complete block
/// becomes findable, the answer ends. What comes out is the same as if each were planned and sampled in each step; only
/// the tokens come later, in one piece (RequestOutput::run_tokens).
///
/// A sequence joins between two steps. Its members `planned`, `computed`, `pending_samples` and `steps_in_flight` stand
/// still while it is in the run, except for steps under way when it joined, and are made good when it leaves. Steps are
/// numbered from 1, as in StepId. Threads: one.
class DecodeRun {
 public:
  /// What the run knows of a step under way.
  struct Step {
    std::uint32_t size = 0;               ///< sequences that the step computes a token of
    std::vector<RequestId> joined;        ///< of these, the ones for which it is the first step in the run
    std::vector<SequenceStep> taken_out;  ///< of sequences that have left the run since the step began
  };

  /// Requires: `answers` outlives it.
  DecodeRun(AnswerSource& answers, std::uint32_t block_size) : answers_(&answers), block_size_(block_size) {}

  [[nodiscard]] bool empty() const { return members_.empty(); }
  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(members_.size()); }
  /// The tokens that attention reads for all of them in the next step.
  [[nodiscard]] std::uint64_t contexts() const {
    return static_cast<std::uint64_t>(context_ + static_cast<std::int64_t>(members_.size() * (begun_ + 2)));
  }
  /// No sequence that is in it was admitted later.
  [[nodiscard]] std::uint64_t last_admission() const { return members_.empty() ? 0 : last_admission_; }

  /// Lets a sequence join before the next step if it only decodes from then on, for some steps. Returns whether it did.
  bool join(Sequence& sequence);
  /// Takes a sequence out, whatever steps are under way. Requires: it is in the run.
  void leave(Sequence& sequence);

  /// Appends the sequences that need something before the next step.
  void find_due_to_begin(std::vector<Sequence*>& due) const;
  /// Whether the sequence has to leave before the next step. Otherwise a sequence that is due needs a block.
  [[nodiscard]] bool has_to_leave(const Sequence& sequence) const { return sequence.run.last_step <= begun_ + 1; }
  /// The tokens that the sequence's blocks have to hold for the next step.
  [[nodiscard]] std::uint32_t planned_next(const Sequence& sequence) const {
    return sequence.run.first + static_cast<std::uint32_t>(begun_ + 2 - sequence.run.first_step);
  }
  /// The sequence has more blocks.
  void on_grown(const Sequence& sequence);
  /// A step began, with all of the run.
  void on_begun();

  /// The oldest step ended. Appends the sequences of which a block is complete now.
  [[nodiscard]] Step on_ended(std::vector<Sequence*>& due);
  /// The sequences that have left since the last call, if a step with them in the run has ended.
  [[nodiscard]] std::vector<RequestId> take_left() { return std::exchange(leaving_, {}); }
  /// Brings tokens and `computed` of a sequence up to the steps that have ended. It stays in the run, and the end of
  /// its next block is awaited.
  void catch_up(Sequence& sequence);
  /// The sample of a Step::taken_out.
  [[nodiscard]] SampledTokens sample(const SequenceStep& step);

  /// Sequence::planned and known(), as they would be outside of the run.
  [[nodiscard]] std::uint32_t planned(const Sequence& sequence) const {
    return sequence.run.first + static_cast<std::uint32_t>(steps_of(sequence, begun_));
  }
  [[nodiscard]] std::uint32_t known(const Sequence& sequence) const { return planned(sequence) + 1; }

 private:
  // The number of steps up to `last` that the sequence was in the run for.
  [[nodiscard]] static std::uint64_t steps_of(const Sequence& sequence, std::uint64_t last) {
    return last < sequence.run.first_step ? 0 : last - sequence.run.first_step + 1;
  }
  void take_tokens(Sequence& sequence);
  void take_out_of_steps(Sequence& sequence);

  AnswerSource* answers_;
  std::uint32_t block_size_;
  std::uint64_t begun_ = 0;  // the last step that began
  std::uint64_t ended_ = 0;  // the last step that ended
  std::deque<Step> under_way_;
  std::vector<RequestId> joining_;  // before the next step
  std::vector<RequestId> leaving_;  // take_left()
  std::uint64_t last_admission_ = 0;
  std::int64_t context_ = 0;  // the sum of RunPlace::first - RunPlace::first_step
  // The same order in all three: a search for what is due reads numbers that lie together, and no sequence.
  std::vector<Sequence*> members_;
  std::vector<std::uint64_t> due_to_begin_;  // the step before which the sequence needs a block or leaves
  std::vector<std::uint64_t> due_to_end_;    // the step that completes its next block
};

}  // namespace kvist::engine

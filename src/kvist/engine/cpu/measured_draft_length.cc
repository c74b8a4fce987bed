#include "kvist/engine/cpu/measured_draft_length.h"

#include <algorithm>

#include "kvist/base/check.h"

namespace kvist::engine::cpu {
namespace {

// The weight of a step halves after 70 more, that of a draft after 700: times change with the machine's load, texts
// with the requests.
constexpr double kStepDecay = 0.99;
constexpr double kDraftDecay = 0.999;
// Steps with more rows than this are prefill, which tells little about the cost of one more row in a decode step.
constexpr std::uint64_t kMostRows = 64;
// Assumed before the first measurement: an eighth of a one-row step is arithmetic.
constexpr double kGuessedShare = 0.125;

}  // namespace

MeasuredDraftLength::MeasuredDraftLength(std::uint32_t most) : most_(most) {
  KVIST_CHECK(most <= kMostDrafts, "a run of tokens holds at most 15 drafts");
}

double MeasuredDraftLength::acceptance(std::uint32_t position) const {
  return positions_[position].accepted / positions_[position].verified;
}

void MeasuredDraftLength::on_step(std::uint64_t rows, Duration took) {
  if (rows == 0 || rows > kMostRows) return;
  const auto x = static_cast<double>(rows);
  const double y = to_milliseconds(took);
  weight_ = kStepDecay * weight_ + 1;
  rows_ = kStepDecay * rows_ + x;
  time_ = kStepDecay * time_ + y;
  rows_rows_ = kStepDecay * rows_rows_ + x * x;
  rows_time_ = kStepDecay * rows_time_ + x * y;
}

// Least squares. If all steps had the same number of rows, the assumed share of arithmetic gives the slope.
MeasuredDraftLength::Line MeasuredDraftLength::step_time() const {
  if (weight_ == 0) return {.fixed = 1 - kGuessedShare, .per_row = kGuessedShare};
  const double rows = rows_ / weight_;
  const double time = time_ / weight_;
  const double variance = rows_rows_ / weight_ - rows * rows;
  Line line;
  line.per_row = kGuessedShare * time / (1 - kGuessedShare + kGuessedShare * rows);
  if (variance > 0.01) line.per_row = (rows_time_ / weight_ - rows * time) / variance;
  line.per_row = std::clamp(line.per_row, 0.0, time / rows);
  line.fixed = time - line.per_row * rows;
  return line;
}

std::uint32_t MeasuredDraftLength::draft_length(const perfmodel::StepLoad& plain) {
  const Line line = step_time();
  const auto sequences = static_cast<double>(plain.decode_sequences);
  const double time = line.fixed + line.per_row * static_cast<double>(plain.rows());
  double all_right = 1;
  double tokens = 1;  // of a sequence, per step
  std::uint32_t length = 0;
  while (length < most_) {
    all_right *= acceptance(length);
    if (all_right * time <= line.per_row * sequences * tokens) break;
    tokens += all_right;
    ++length;
  }
  if (length > 0) {
    steps_since_draft_ = 0;
  } else if (++steps_since_draft_ >= kProbe && most_ > 0) {
    steps_since_draft_ = 0;
    return 1;
  }
  return length;
}

void MeasuredDraftLength::on_verified(std::uint32_t drafted, std::uint32_t accepted) {
  for (std::uint32_t i = 0; i < drafted && i <= accepted; ++i) {
    Counts& counts = positions_[i];
    counts.verified = kDraftDecay * counts.verified + 1;
    counts.accepted = kDraftDecay * counts.accepted + (i < accepted ? 1 : 0);
  }
}

}  // namespace kvist::engine::cpu

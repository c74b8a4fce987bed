// The work of an engine step on which its duration depends.
#pragma once

#include <cstdint>

namespace kvist::perfmodel {

/// Filled by the scheduler while it plans, read by the step-time model.
struct StepLoad {
  std::uint64_t prefill_tokens = 0;    ///< prompt tokens (and recomputed ones) computed in this step
  std::uint64_t sequences = 0;         ///< sequences that take part
  std::uint64_t kv_tokens_read = 0;    ///< sum over sequences of the context their attention reads
  std::uint64_t decode_sequences = 0;  ///< sequences that only decode
  std::uint64_t decode_kv_tokens = 0;  ///< kv_tokens_read of these
  std::uint64_t draft_tokens =
      0;  ///< drafted tokens that are verified, in addition to the one that each decoding sequence computes anyway
  std::uint64_t prefill_pairs = 0;  ///< sum over prefill chunks of tokens x mean context, the work of their attention
  std::uint32_t draft_passes = 0;   ///< draft steps before the verification, which is the draft length of this step

  /// Rows of the step's matrix products.
  [[nodiscard]] std::uint64_t rows() const { return prefill_tokens + decode_sequences + draft_tokens; }
  friend bool operator==(const StepLoad&, const StepLoad&) = default;
};

}  // namespace kvist::perfmodel

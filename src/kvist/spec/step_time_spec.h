// Coefficients of a step-time model, as the YAML gives them; perfmodel/step_time_model.h computes with them.
#pragma once

#include "kvist/base/time.h"

namespace kvist::spec {

/// Duration of one engine step = fixed + per_prefill_token x prefill tokens + per_sequence x running sequences
///                               + per_kv_token x KV tokens read by attention
///                               + per_prefill_pair x pairs of a prefill token and a token that it attends to.
/// Defaults: Llama 3.1 70B FP8 on one H200 under TensorRT-LLM, decode with a captured graph
/// (docs/design/architecture.md says where each figure is from).
struct StepTimeSpec {
  Duration fixed = std::chrono::microseconds(21'000);
  Duration per_prefill_token = std::chrono::nanoseconds(94'000);
  Duration per_sequence = std::chrono::nanoseconds(70'000);
  /// Picoseconds matter here (40 ns per token of context), so this one is a double, in nanoseconds.
  double per_kv_token_ns = 40.0;
  /// Likewise. 0: attention of prompts takes no time, as long as they are short; of a gateway's latency_prior: as much
  /// as 10,240 pairs would take if they took as long as a prefill token, so that both are equal at 20,480 tokens.
  double per_prefill_pair_ns = 0;

  bool operator==(const StepTimeSpec&) const = default;
};

}  // namespace kvist::spec

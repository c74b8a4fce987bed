// From the logits of one position to a token.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kvist/base/id.h"
#include "kvist/engine/sampling/sampling_options.h"
#include "kvist/engine/sampling/token_counts.h"
#include "kvist/engine/sampling/token_logprobs.h"

namespace kvist::engine {

/// Randomness of a sample: counter-based, so that a token depends on the request's seed and its own position alone, not
/// on the batch, the steps or the worker that computes it. In [0, 1).
[[nodiscard]] double sample_uniform(std::uint64_t seed, std::uint32_t position);

/// Chooses tokens. Keeps scratch memory for a vocabulary and nothing else: the same arguments give the same token.
/// One thread.
///
/// Speculative decoding needs no sampler of its own. A drafter that proposes one token per position is a distribution
/// with one point, and the lossless rule (accept x with probability p(x), else sample p without x) is met exactly by
/// sampling y from p as ever and accepting the draft where it is y: P(accept) = p(x), and a rejected position has p
/// without x. With the uniform of the position, drafts change not only no distribution but no token.
class Sampler {
 public:
  /// Applies biases, bans and penalties to `logits` in place. `counts` may be null where the options do not penalize.
  /// `banned` can not be chosen (the ends of an answer that is too short yet).
  void adjust(std::span<float> logits, const SamplingOptions& options, const TokenCounts* counts,
              std::span<const TokenId> banned) const;
  /// A token by adjusted logits and a uniform number in [0, 1). Logits that are not numbers count as impossible; where
  /// all are, token 0 is chosen.
  [[nodiscard]] TokenId choose(std::span<const float> logits, const SamplingOptions& options, double uniform);
  /// The probabilities that choose() draws by, tokens left out having none. For tests and for who wants to see them.
  [[nodiscard]] std::vector<TokenLogprob> distribution(std::span<const float> logits, const SamplingOptions& options);

  /// Of a token by the logits as the model gave them, with `likeliest` others.
  [[nodiscard]] TokenLogprobs logprobs(std::span<const float> logits, TokenId chosen, std::uint32_t likeliest);

 private:
  struct Weight {
    std::uint32_t token = 0;
    float logit = 0;
    double weight = 0;  // exp(logit - greatest), not normalized
  };

  [[nodiscard]] TokenId draw(double uniform) const;
  void keep_likely(std::span<const float> logits, const SamplingOptions& options);
  void keep_top(const SamplingOptions& options);

  std::vector<Weight> kept_;  // of one call
};

}  // namespace kvist::engine

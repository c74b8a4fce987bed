// Chooses a token from the logits of one position.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kvist/base/id.h"
#include "kvist/engine/sampling/sampling_options.h"
#include "kvist/engine/sampling/token_counts.h"
#include "kvist/engine/sampling/token_logprobs.h"

namespace kvist::engine {

/// The random number of a sample, in [0, 1). It is counter-based, so that a token depends on the request's seed and its
/// own position alone, not on the batch, the steps or the worker.
[[nodiscard]] double sample_uniform(std::uint64_t seed, std::uint32_t position);

/// Chooses tokens. The only state is scratch memory for a vocabulary, so the same arguments give the same token.
/// Threads: one.
///
/// Speculative decoding needs no sampler of its own. A drafter that proposes one token per position is a distribution
/// with one point. The lossless rule (accept x with probability p(x), otherwise sample p without x) is met exactly by
/// sampling y from p as usual and accepting the draft if it equals y: P(accept) = p(x), and a rejected position has p
/// without x. Since the random number belongs to the position, drafts change neither the distribution nor any token.
class Sampler {
 public:
  /// Applies biases, bans and penalties to `logits` in place. `counts` may be null if the options do not penalize.
  /// Tokens in `banned` cannot be chosen (those that would end an answer before its minimum length).
  void adjust(std::span<float> logits, const SamplingOptions& options, const TokenCounts* counts,
              std::span<const TokenId> banned) const;
  /// Chooses a token by adjusted logits and a uniform number in [0, 1). A NaN logit counts as impossible; if all are,
  /// token 0 is chosen.
  [[nodiscard]] TokenId choose(std::span<const float> logits, const SamplingOptions& options, double uniform);
  /// The probabilities by which choose() draws, without excluded tokens. For tests and inspection.
  [[nodiscard]] std::vector<TokenLogprob> distribution(std::span<const float> logits, const SamplingOptions& options);

  /// The log probabilities of a token and of the `likeliest` ones, by the model's own logits.
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

  std::vector<Weight> kept_;  // scratch memory of one call
};

}  // namespace kvist::engine

#include "kvist/engine/sampling/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kvist/base/random.h"

namespace kvist::engine {
namespace {

constexpr std::size_t kSortedAtOnce = 64;
constexpr float kImpossible = -std::numeric_limits<float>::infinity();

/// The index of the greatest logit, the lowest of equal ones; 0 if all are NaN.
std::uint32_t greatest(std::span<const float> logits) {
  std::uint32_t best = 0;
  float most = kImpossible;
  for (std::uint32_t i = 0; i < logits.size(); ++i) {
    if (!(logits[i] > most)) continue;
    most = logits[i];
    best = i;
  }
  return best;
}

float& at(std::span<float> logits, TokenId token) {
  return logits[token.value()];
}

}  // namespace

double sample_uniform(std::uint64_t seed, std::uint32_t position) {
  return RandomStream(mix_seed({seed, seed_part("sample"), position})).uniform();
}

void Sampler::adjust(std::span<float> logits, const SamplingOptions& options, const TokenCounts* counts,
                     std::span<const TokenId> banned) const {
  const auto known = [&](TokenId token) { return token.value() < logits.size(); };
  for (const TokenBias& bias : options.logit_bias) {
    if (known(bias.token)) at(logits, bias.token) += bias.bias;
  }
  for (const TokenId token : banned) {
    if (known(token)) at(logits, token) = kImpossible;
  }
  if (counts == nullptr || !options.penalizes()) return;
  for (const TokenCounts::Entry& entry : counts->entries()) {
    if (!known(entry.token)) continue;
    float& logit = at(logits, entry.token);
    logit = logit > 0 ? logit / options.repetition_penalty : logit * options.repetition_penalty;
    if (entry.in_answer == 0) continue;
    logit -= options.presence_penalty + options.frequency_penalty * static_cast<float>(entry.in_answer);
  }
}

TokenId Sampler::choose(std::span<const float> logits, const SamplingOptions& options, double uniform) {
  if (options.temperature == 0) return TokenId(greatest(logits));
  keep_likely(logits, options);
  keep_top(options);
  return kept_.empty() ? TokenId(0) : draw(uniform);
}

std::vector<TokenLogprob> Sampler::distribution(std::span<const float> logits, const SamplingOptions& options) {
  if (options.temperature == 0) return {{.token = TokenId(greatest(logits)), .logprob = 0}};
  keep_likely(logits, options);
  keep_top(options);
  double sum = 0;
  for (const Weight& kept : kept_) sum += kept.weight;
  std::vector<TokenLogprob> result;
  for (const Weight& kept : kept_) {
    if (kept.weight > 0)
      result.push_back({.token = TokenId(kept.token), .logprob = static_cast<float>(std::log(kept.weight / sum))});
  }
  return result;
}

// All tokens by id, except those that min-p or their logit excludes. For exactness, even tokens that are far too
// unlikely to matter for top-k or top-p are included.
void Sampler::keep_likely(std::span<const float> logits, const SamplingOptions& options) {
  kept_.clear();
  const float most = logits.empty() ? kImpossible : logits[greatest(logits)];
  if (!(most > kImpossible)) return;
  const double scale = 1.0 / options.temperature;
  for (std::uint32_t i = 0; i < logits.size(); ++i) {
    if (!(logits[i] > kImpossible)) continue;
    // An infinite logit has weight 1, because the difference of two infinite ones is not a number.
    const double weight = logits[i] == most ? 1 : std::exp((static_cast<double>(logits[i]) - most) * scale);
    if (weight < options.min_p || weight == 0) continue;
    kept_.push_back({.token = i, .logit = logits[i], .weight = weight});
  }
}

void Sampler::keep_top(const SamplingOptions& options) {
  const bool by_count = options.top_k > 0 && options.top_k < kept_.size();
  const bool by_share = options.top_p < 1;
  if (!by_count && !by_share) return;
  const auto likelier = [](const Weight& a, const Weight& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
  };
  if (by_count) {
    std::ranges::nth_element(kept_, kept_.begin() + options.top_k, likelier);
    kept_.resize(options.top_k);
  }
  if (!by_share) {
    std::ranges::sort(kept_, likelier);
    return;
  }
  double sum = 0;
  for (const Weight& kept : kept_) sum += kept.weight;
  // Few tokens have nearly all of the probability, so only as many as needed are sorted, not the vocabulary.
  double reached = 0;
  std::size_t count = 0;
  for (std::size_t sorted = 0; count < kept_.size() && (count == 0 || reached < options.top_p * sum);) {
    if (count == sorted) {
      const std::size_t next = std::min(kept_.size(), std::max(kSortedAtOnce, sorted * 8));
      std::ranges::partial_sort(kept_.begin() + static_cast<std::ptrdiff_t>(sorted),
                                kept_.begin() + static_cast<std::ptrdiff_t>(next), kept_.end(), likelier);
      sorted = next;
    }
    reached += kept_[count++].weight;
  }
  kept_.resize(count);
}

TokenId Sampler::draw(double uniform) const {
  double sum = 0;
  for (const Weight& kept : kept_) sum += kept.weight;
  const double target = uniform * sum;
  double reached = 0;
  for (const Weight& kept : kept_) {
    reached += kept.weight;
    if (target < reached) return TokenId(kept.token);
  }
  return TokenId(kept_.back().token);
}

TokenLogprobs Sampler::logprobs(std::span<const float> logits, TokenId chosen, std::uint32_t likeliest) {
  const float most = logits[greatest(logits)];
  kept_.clear();
  double sum = 0;
  std::uint32_t rank = 1;
  const float own = logits[chosen.value()];
  for (std::uint32_t i = 0; i < logits.size(); ++i) {
    if (!(logits[i] > kImpossible)) continue;
    rank += logits[i] > own || (logits[i] == own && i < chosen.value()) ? 1 : 0;
    sum += logits[i] == most ? 1 : std::exp(static_cast<double>(logits[i]) - most);
    kept_.push_back({.token = i, .logit = logits[i]});
  }
  const auto logprob = [&](float logit) {
    if (!(logit > kImpossible)) return kImpossible;
    return static_cast<float>((logit == most ? 0 : static_cast<double>(logit) - most) - std::log(sum));
  };
  TokenLogprobs result{.chosen = {.token = chosen, .logprob = logprob(own)}, .rank = rank, .likeliest = {}};
  const std::size_t count = std::min<std::size_t>(likeliest, kept_.size());
  std::ranges::partial_sort(
      kept_, kept_.begin() + static_cast<std::ptrdiff_t>(count),
      [](const Weight& a, const Weight& b) { return a.logit != b.logit ? a.logit > b.logit : a.token < b.token; });
  for (std::size_t i = 0; i < count; ++i)
    result.likeliest.push_back({.token = TokenId(kept_[i].token), .logprob = logprob(kept_[i].logit)});
  return result;
}

}  // namespace kvist::engine

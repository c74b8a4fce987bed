// How fast one worker is, learned from what passes through the gateway.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "kvist/base/time.h"
#include "kvist/spec/step_time_spec.h"

namespace kvist::routing {

/// What was predicted against what happened.
struct PredictionError {
  double mean_absolute_ms = 0;  ///< exponentially forgotten, as the next two
  double mean_observed_ms = 0;
  double mean_predicted_ms = 0;
  std::uint64_t observations = 0;

  void observe(double predicted_ms, double observed_ms);
  /// Mean absolute error as a share of what was observed, or of what was predicted where that is more; 0 before the
  /// first observation. So a prediction that is wrong by any factor in either direction comes to less than 1.
  [[nodiscard]] double relative() const {
    const double mean = std::max(mean_observed_ms, mean_predicted_ms);
    return mean > 0 ? mean_absolute_ms / mean : 0;
  }
};

/// What there is to compute of a prompt, in tokens.
struct PrefillWork {
  double uncached = 0;
  double cached = 0;

  /// (token, token before it) pairs that attention computes: each uncached token looks at the cached ones and at half
  /// of the uncached ones.
  [[nodiscard]] double pairs() const { return uncached * (cached + uncached / 2); }
};

/// What a request waited for, to learn prefill from. Milliseconds.
struct FirstTokenSample {
  double ttft_ms = 0;
  double queue_ms = 0;      ///< predicted time until the prompts before it were computed
  double step_ms = 0;       ///< predicted decode step with the request in the batch
  PrefillWork work = {};    ///< of its prompt
  double ahead_tokens = 0;  ///< uncached, of prompts before it that were not done when it came
  double behind_ms = 0;     ///< from its routing until the first token of a prompt before it was seen; 0: of none
  double answer_ms = 0;     ///< of the answer behind it, where only the end of that was seen: `ttft_ms` is a guess then
};

/// The model of one worker, in milliseconds:
///   step(b, c)        = prior(b, c) x ratio(b)            one decode step of b sequences with c tokens of context
///   prefill(u, p)     = per_prefill_token x u + per_pair x p              u uncached tokens, p pairs (PrefillWork)
///   first token       = queue + base + steps x step(b + 1, c) + prefill
/// `ratio` is a table, one entry per batch size, as engines have jumps between two of them (captured graphs, tiles). An
/// entry with observations of its own speaks for itself, one without is interpolated from the nearest. The four
/// weights of the first token are estimated by a Kalman filter whose state drifts slowly. A request that waited behind
/// another prompt tells of its prefill alone: by the time from that one's first token to its own. Outliers are cut to a
/// range around the expectation, so that a stall moves little and a lasting change wins within tens of observations.
/// Prior: a linear step time, which may be wrong by an order of magnitude. Pure; one thread. Memory: one entry per
/// batch size up to the largest seen.
class LatencyModel {
 public:
  explicit LatencyModel(const spec::StepTimeSpec& prior);

  [[nodiscard]] double step_ms(std::uint32_t batch, std::uint64_t context_tokens) const;
  /// Of a request that has a slot and no prompt before it: until its first token.
  [[nodiscard]] double first_token_ms(double step_ms, const PrefillWork& work) const;
  [[nodiscard]] double prefill_ms(const PrefillWork& work) const {
    return weights_[2] * work.uncached + weights_[3] * work.pairs();
  }

  /// The gap between two tokens of one request with `batch` sequences decoding and no prompt being computed; or a mean
  /// gap that counts for `weight` of them.
  void observe_step(std::uint32_t batch, std::uint64_t context_tokens, double gap_ms, double weight = 1);
  void observe_first_token(const FirstTokenSample& sample);

  [[nodiscard]] const PredictionError& step_error() const { return step_error_; }
  [[nodiscard]] const PredictionError& first_token_error() const { return first_token_error_; }

 private:
  struct Entry {
    double ratio = 1;   // mean of observed / prior
    double weight = 0;  // observations in it, forgotten
  };
  [[nodiscard]] double prior_ms(std::uint32_t batch, std::uint64_t context_tokens) const;
  [[nodiscard]] double prior_variance(std::size_t weight) const;
  void smooth();
  using Row = std::array<double, 4>;
  void observe_prefill(const FirstTokenSample& sample);
  void learn(const Row& x, double observed, double deviation);
  [[nodiscard]] bool learn(const Row& x, double observed, double noise, std::array<bool, 4>& fixed);

  spec::StepTimeSpec prior_;
  std::vector<Entry> seen_;    // by batch size
  std::vector<double> ratio_;  // smoothed, by batch size
  std::uint32_t since_smooth_ = 0;
  Row weights_ = {};  // base, steps, per prefill token, per pair
  Row prior_weights_ = {};
  std::array<Row, 4> covariance_ = {};
  PredictionError step_error_;
  PredictionError first_token_error_;
};

}  // namespace kvist::routing

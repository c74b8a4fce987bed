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

/// What a request waited for, to learn prefill from. Milliseconds and tokens.
struct FirstTokenSample {
  double ttft_ms = 0;
  double queue_ms = 0;         ///< predicted time until the prompts before it were computed
  double step_ms = 0;          ///< predicted decode step with the request in the batch
  double uncached_tokens = 0;  ///< of its prompt
  double ahead_tokens = 0;     ///< of prompts before it that were not done when it came
  double answer_ms = 0;  ///< of the answer behind it, where only the end of that was seen: `ttft_ms` is a guess then
};

/// The model of one worker, in milliseconds:
///   step(b, c)        = prior(b, c) x ratio(b)            one decode step of b sequences with c tokens of context
///   first token       = queue + base + steps x step(b + 1, c) + per_prefill_token x uncached tokens
/// `ratio` is a table, one entry per batch size, as engines have jumps between two of them (captured graphs, tiles). An
/// entry with observations of its own speaks for itself, one without is interpolated from the nearest. The three
/// weights of the first token are estimated by a Kalman filter whose state drifts slowly; a request that found other
/// prompts before it says little. Outliers are cut to a range around the expectation, so that a stall moves little and
/// a lasting change wins within tens of observations. Prior: a linear step time, which may be wrong by an order of
/// magnitude. Pure; one thread. Memory: one entry per batch size up to the largest seen.
class LatencyModel {
 public:
  explicit LatencyModel(const spec::StepTimeSpec& prior);

  [[nodiscard]] double step_ms(std::uint32_t batch, std::uint64_t context_tokens) const;
  /// Of a request that has a slot and no prompt before it: until its first token.
  [[nodiscard]] double first_token_ms(double step_ms, double uncached_tokens) const;
  [[nodiscard]] double prefill_ms(double tokens) const { return weights_[2] * tokens; }

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
  [[nodiscard]] double prior_variance(int weight) const;
  void smooth();
  [[nodiscard]] bool learn(const std::array<double, 3>& x, double observed, double noise, bool (&fixed)[3]);

  spec::StepTimeSpec prior_;
  std::vector<Entry> seen_;    // by batch size
  std::vector<double> ratio_;  // smoothed, by batch size
  std::uint32_t since_smooth_ = 0;
  double weights_[3] = {};  // base, steps, per prefill token
  double prior_weights_[3] = {};
  double covariance_[3][3] = {};
  PredictionError step_error_;
  PredictionError first_token_error_;
};

}  // namespace kvist::routing

// How fast one worker is, learned from the answers that pass through the gateway.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "kvist/base/time.h"
#include "kvist/routing/prefill_work.h"
#include "kvist/routing/weight_filter.h"
#include "kvist/spec/step_time_spec.h"

namespace kvist::routing {

/// The error of predictions.
struct PredictionError {
  double mean_absolute_ms = 0;  ///< exponential mean, as are the next two
  double mean_observed_ms = 0;
  double mean_predicted_ms = 0;
  std::uint64_t observations = 0;

  void observe(double predicted_ms, double observed_ms);
  /// Mean absolute error as a share of the mean observation, or of the mean prediction if that is larger; 0 before the
  /// first observation. So a prediction that is wrong by any factor, in either direction, gives less than 1.
  [[nodiscard]] double relative() const {
    const double mean = std::max(mean_observed_ms, mean_predicted_ms);
    return mean > 0 ? mean_absolute_ms / mean : 0;
  }
};

/// What a request waited for, from which prefill is learned. Times are in milliseconds.
struct FirstTokenSample {
  double ttft_ms = 0;
  double queue_ms = 0;      ///< predicted time until the prompts before it are computed
  double step_ms = 0;       ///< predicted decode step with the request in the batch
  PrefillWork work = {};    ///< the prefill of its own prompt
  double ahead_tokens = 0;  ///< uncached tokens of the prompts that were queued before it when it came
  double behind_ms = 0;     ///< from its routing until the last first token before its own; 0: none came in between
  PrefillSum between = {};  ///< of prompts that were computed in that time and whose first tokens nobody saw
  PrefillSum beside = {};   ///< of the other prompts that were computed in its step; only if one came before it
  /// Prompts of other gateways were before it. When they were computed is known only by a first token that was seen.
  bool behind_peers = false;
};

/// An answer that came at once. The first four are those of FirstTokenSample.
struct WholeAnswerSample {
  double queue_ms = 0;
  double step_ms = 0;
  PrefillWork work = {};
  double ahead_tokens = 0;
  PrefillSum others = {};   ///< of the prompts that came later and were computed; its answer waited for them
  double elapsed_ms = 0;    ///< from its routing until it was there
  double steps = 0;         ///< after its first token
  std::uint32_t batch = 0;  ///< during these, on average, as is the next
  std::uint64_t context_tokens = 0;
};

/// The model of one worker, in milliseconds.
///  - step(b, c) = prior(b, c) x ratio(b): one decode step of b sequences with c tokens of context.
///  - prefill(u, p) = per_prefill_token x u + per_pair x p: u uncached tokens, p pairs (PrefillWork).
///  - first token = queue + base + steps x step(b + 1, c) + prefill.
///
/// `ratio` is a table with one entry per batch size, because step times jump at some batch sizes (captured graphs,
/// tiles). An entry with observations of its own uses these; one without any is interpolated from the nearest entries.
/// The four weights of the first token are estimated by a Kalman filter whose state drifts slowly. A request that
/// waited behind another prompt gives an observation of prefill alone: the time from that prompt's first token to its
/// own. An answer that came whole gives the sum of its first token and its steps, whose factor is the filter's fifth
/// weight, and so teaches all of them together. Outliers are clipped to a range around the expectation, so that a stall
/// changes little, while a lasting change prevails within tens of observations. Prior: a linear step time, which may be
/// wrong by an order of magnitude. Threads: one. Memory: one entry per batch size up to the largest observed.
class LatencyModel {
 public:
  explicit LatencyModel(const spec::StepTimeSpec& prior);

  [[nodiscard]] double step_ms(std::uint32_t batch, std::uint64_t context_tokens) const;
  /// The time to first token of a request that has a slot and no prompt before it.
  [[nodiscard]] double first_token_ms(double step_ms, const PrefillWork& work) const;
  [[nodiscard]] double prefill_ms(const PrefillWork& work) const {
    return filter_.weight(2) * work.uncached + filter_.weight(3) * work.pairs();
  }

  /// Takes the gap between two tokens of one request, with `batch` sequences decoding and no prompt being computed.
  void observe_step(std::uint32_t batch, std::uint64_t context_tokens, double gap_ms);
  /// Returns whether the weights were learned from it. Not every first token says something about them.
  bool observe_first_token(const FirstTokenSample& sample);
  /// The same for one that came in a step of which another first token is observed.
  void observe_first_token_beside(const FirstTokenSample& sample);
  /// Learns from the sum of a time to first token and of the steps after it. What one of the two was follows from what
  /// is known of the other, and counts the less, the less is known of that. Of steps only one factor for all batch
  /// sizes is learned.
  void observe_whole_answer(const WholeAnswerSample& sample);
  /// When the first token of a whole answer most probably came, since it was routed.
  [[nodiscard]] double first_token_after_ms(const WholeAnswerSample& sample) const;

  /// The learned factor of the prior's step time.
  [[nodiscard]] double ratio(std::uint32_t batch) const {
    return ratio_.empty() ? 1 : ratio_[std::min<std::size_t>(batch, ratio_.size() - 1)];
  }
  /// The same for each batch size up to the largest observed; larger ones have the last. Empty: nothing was observed.
  [[nodiscard]] std::span<const double> ratios() const { return ratio_; }
  /// The weights of the first token: base, steps, per prefill token, per pair. All are above 0.
  [[nodiscard]] std::array<double, 4> weights() const {
    return {filter_.weight(0), filter_.weight(1), filter_.weight(2), filter_.weight(3)};
  }
  [[nodiscard]] const PredictionError& step_error() const { return step_error_; }
  [[nodiscard]] const PredictionError& first_token_error() const { return first_token_error_; }
  /// First tokens and whole answers, each of which says something about the weights of the first token.
  [[nodiscard]] std::uint64_t observations() const { return first_token_error_.observations + whole_answers_; }

 private:
  static constexpr std::size_t kScale = 4;  // the weight of the steps of whole answers
  struct Entry {
    double ratio = 1;   // mean of observed / prior
    double weight = 0;  // number of observations, with forgetting
  };
  [[nodiscard]] double prior_ms(std::uint32_t batch, std::uint64_t context_tokens) const;
  [[nodiscard]] double prefill_ms_of(const PrefillSum& sum) const {
    return filter_.weight(2) * sum.uncached + filter_.weight(3) * sum.pairs;
  }
  void smooth();
  [[nodiscard]] bool observe_prefill(const FirstTokenSample& sample);
  /// What a whole answer's time is expected to be. The rows are those of the weights, without the queue.
  struct WholeAnswer {
    WeightFilter::Row x = {};
    double all_ms = 0;
    double noise = 0;                // of it, without the error of the weights
    WeightFilter::Row first_x = {};  // of its first token, as are the next
    double first_ms = 0;
    double first_noise = 0;
  };
  [[nodiscard]] WholeAnswer parts_of(const WholeAnswerSample& sample) const;

  spec::StepTimeSpec prior_;
  std::vector<Entry> seen_;               // by batch size
  std::vector<double> ratio_;             // smoothed, by batch size
  std::uint32_t since_smooth_ = 0;        // observations of steps and whole answers
  std::uint32_t steps_since_smooth_ = 0;  // of these, those of steps
  bool scale_known_ = false;              // a whole answer had steps
  WeightFilter filter_;                   // base, steps, per prefill token, per pair; factor of all batch sizes
  PredictionError step_error_;
  PredictionError first_token_error_;
  std::uint64_t whole_answers_ = 0;
};

}  // namespace kvist::routing

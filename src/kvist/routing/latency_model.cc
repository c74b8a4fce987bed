#include "kvist/routing/latency_model.h"

#include <algorithm>
#include <cmath>

namespace kvist::routing {
namespace {

/// The least weight of a step's observation against the earlier ones at the same batch size.
constexpr double kLeastStepShare = 0.02;
/// An observed step is clipped to this factor above or below the expectation.
constexpr double kOutlier = 3;
/// How many observations the neighbours of an entry count for at most, and by which factor less per batch size of
/// distance.
constexpr double kNeighbourWeight = 1;
constexpr double kNeighbourDecay = 0.7;
/// How many observations the prior counts for, where no batch size nearby was observed.
constexpr double kPriorWeight = 1e-3;
constexpr std::uint32_t kSmoothEvery = 16;
/// Per smoothing, old observations keep this share of their weight. So a batch size that no longer occurs gives way to
/// its neighbours: by half after about 11,000 steps at others.
constexpr double kKeptPerSmooth = 0.999;
/// The weights of the first token's equation stay above this share of their prior, so that noise never turns a sign.
constexpr double kLeastWeight = 0.02;
constexpr double kMostWeight = 50;
/// Standard deviation of a time to first token with no prompt before it, as a share of that time.
constexpr double kNoise = 0.15;
/// Standard deviation of a weight's drift from one observation to the next, as a share of the weight.
constexpr double kDrift = 0.003;
/// Standard deviation of the prior, as a multiple of its values, which may be wrong by an order of magnitude.
constexpr double kPriorDeviation = 2;

// The prior: a request waits for the rest of a step and for one whole step, and its way into the engine takes some tens
// of milliseconds (measured on vLLM and TensorRT-LLM).
constexpr double kPriorBaseMs = 30;
constexpr double kPriorSteps = 1.5;
/// The number of uncached tokens at which a prompt's attention takes as long as everything else: 20,000 to 40,000 for a
/// 70B model with grouped-query attention on an H200, fewer for smaller models.
constexpr double kPriorEvenTokens = 20'480;

}  // namespace

void PredictionError::observe(double predicted_ms, double observed_ms) {
  ++observations;
  const double share = std::max(0.02, 1 / static_cast<double>(observations));
  mean_absolute_ms += share * (std::abs(predicted_ms - observed_ms) - mean_absolute_ms);
  mean_observed_ms += share * (observed_ms - mean_observed_ms);
  mean_predicted_ms += share * (predicted_ms - mean_predicted_ms);
}

LatencyModel::LatencyModel(const spec::StepTimeSpec& prior) : prior_(prior) {
  weights_[0] = kPriorBaseMs;
  weights_[1] = kPriorSteps;
  weights_[2] = std::max(1e-4, to_milliseconds(prior.per_prefill_token));
  weights_[3] = weights_[2] / (kPriorEvenTokens / 2);
  prior_weights_ = weights_;
  for (std::size_t i = 0; i < weights_.size(); ++i) covariance_[i][i] = prior_variance(i);
}

double LatencyModel::prior_variance(std::size_t weight) const {
  const double deviation = kPriorDeviation * prior_weights_[weight];
  return deviation * deviation;
}

double LatencyModel::prior_ms(std::uint32_t batch, std::uint64_t context_tokens) const {
  return to_milliseconds(prior_.fixed) + to_milliseconds(prior_.per_sequence) * batch +
         prior_.per_kv_token_ns * 1e-6 * static_cast<double>(context_tokens);
}

double LatencyModel::step_ms(std::uint32_t batch, std::uint64_t context_tokens) const {
  return prior_ms(batch, context_tokens) * ratio(batch);
}

double LatencyModel::first_token_ms(double step_ms, const PrefillWork& work) const {
  return std::max(0.0, weights_[0] + weights_[1] * step_ms + prefill_ms(work));
}

void LatencyModel::observe_step(std::uint32_t batch, std::uint64_t context_tokens, double gap_ms, double weight) {
  const double expected = step_ms(batch, context_tokens);
  step_error_.observe(expected, gap_ms);
  const double believed = std::clamp(gap_ms, expected / kOutlier, expected * kOutlier);
  if (batch >= seen_.size()) {
    seen_.resize(batch + 1);
    since_smooth_ = kSmoothEvery;
  }
  Entry& entry = seen_[batch];
  entry.weight = std::min(entry.weight + weight, 1 / kLeastStepShare);
  entry.ratio += (believed / prior_ms(batch, context_tokens) - entry.ratio) * std::min(1.0, weight / entry.weight);
  if (++since_smooth_ >= kSmoothEvery) smooth();
}

// Two passes carry the last observed entry below and above each batch size along, with a weight that falls with
// distance.
void LatencyModel::smooth() {
  since_smooth_ = 0;
  for (Entry& entry : seen_) entry.weight *= kKeptPerSmooth;
  const std::size_t size = seen_.size();
  ratio_.assign(size, 1);
  std::vector<double> sum(size);
  std::vector<double> weight(size);
  const auto pass = [&](std::size_t i, double& carried, double& carried_weight) {
    sum[i] += carried * carried_weight;
    weight[i] += carried_weight;
    const Entry& entry = seen_[i];
    const double total = carried_weight + entry.weight;
    if (total > 0) carried = (carried * carried_weight + entry.ratio * entry.weight) / total;
    carried_weight = std::min(total, kNeighbourWeight) * kNeighbourDecay;
  };
  double carried = 1;
  double carried_weight = kPriorWeight;
  for (std::size_t i = 0; i < size; ++i) pass(i, carried, carried_weight);
  carried = 1;
  carried_weight = 0;
  for (std::size_t i = size; i-- > 0;) pass(i, carried, carried_weight);
  for (std::size_t i = 0; i < size; ++i) {
    const double own = seen_[i].weight;
    if (own + weight[i] > 0) ratio_[i] = (sum[i] + seen_[i].ratio * own) / (weight[i] + own);
  }
}

bool LatencyModel::observe_first_token(const FirstTokenSample& sample) {
  const double expected = sample.queue_ms + first_token_ms(sample.step_ms, sample.work);
  if (sample.answer_ms <= 0) first_token_error_.observe(expected, sample.ttft_ms);
  bool learned = true;
  if (sample.behind_ms > 0) {
    learned = observe_prefill(sample);
  } else {
    const double observed = std::clamp(sample.ttft_ms, expected / kOutlier, expected * kOutlier) - sample.queue_ms;
    // The delay by the prompts before it is known less well than its own prefill, so their share adds to the noise of
    // the observation.
    const double others = sample.ahead_tokens / std::max(1.0, sample.ahead_tokens + sample.work.uncached);
    const double noise = (kNoise + others) * std::max(expected, observed) + kNoise * sample.answer_ms;
    learn({1, sample.step_ms, sample.work.uncached, sample.work.pairs()}, observed, noise);
  }
  // The true weights drift slowly, so each weight's uncertainty grows with every observation, up to that of the prior.
  // The covariances do not grow: otherwise a weight without news, such as prefill while every history is cached, would
  // drift on noise.
  for (std::size_t i = 0; i < weights_.size(); ++i) {
    const double drift = kDrift * weights_[i];
    covariance_[i][i] = std::min(covariance_[i][i] + drift * drift, prior_variance(i));
  }
  return learned;
}

// When the first token of the prompt before it came, the request was in the engine and its prompt was the next. So the
// time from then on is one step plus its prefill. Two first tokens of the same step say nothing about prefill.
bool LatencyModel::observe_prefill(const FirstTokenSample& sample) {
  const double gap_ms = sample.ttft_ms - sample.behind_ms;
  const double expected = prefill_ms(sample.work);
  if (gap_ms < sample.step_ms || expected < sample.step_ms) return false;
  const double observed = std::clamp(gap_ms - sample.step_ms, expected / kOutlier, expected * kOutlier);
  learn({0, 0, sample.work.uncached, sample.work.pairs()}, observed,
        kNoise * std::max(expected, observed) + sample.step_ms);
  return true;
}

void LatencyModel::learn(const Row& x, double observed, double deviation) {
  const double noise = std::max(0.5, deviation);
  std::array<bool, 4> fixed = {};
  while (!learn(x, observed, noise * noise, fixed)) {
  }
}

// Recursive least squares: gain = P x / (noise + x' P x). A weight that would leave its range is fixed at the end of
// the range. Then the other weights have to explain the observation alone, and their covariance with the fixed one is
// dropped. Otherwise they would compensate for a change that the fixed weight never makes, and get further from the
// truth each time. Returns false if a weight was fixed.
bool LatencyModel::learn(const Row& x, double observed, double noise, std::array<bool, 4>& fixed) {
  constexpr std::size_t kWeights = std::tuple_size_v<Row>;
  Row px = {};
  double xpx = 0;
  double error = observed;
  for (std::size_t i = 0; i < kWeights; ++i) {
    error -= weights_[i] * x[i];
    if (fixed[i]) continue;
    for (std::size_t j = 0; j < kWeights; ++j) px[i] += fixed[j] ? 0 : covariance_[i][j] * x[j];
    xpx += x[i] * px[i];
  }
  const double scale = 1 / (noise + xpx);
  for (std::size_t i = 0; i < kWeights; ++i) {
    const double wanted = weights_[i] + px[i] * scale * error;
    const double allowed = std::clamp(wanted, prior_weights_[i] * kLeastWeight, prior_weights_[i] * kMostWeight);
    if (allowed == wanted) continue;
    weights_[i] = allowed;
    fixed[i] = true;
    for (std::size_t j = 0; j < kWeights; ++j) {
      if (j != i) covariance_[i][j] = covariance_[j][i] = 0;
    }
    return false;
  }
  for (std::size_t i = 0; i < kWeights; ++i) {
    weights_[i] += px[i] * scale * error;
    for (std::size_t j = 0; j < kWeights; ++j) covariance_[i][j] -= px[i] * px[j] * scale;
  }
  return true;
}

}  // namespace kvist::routing

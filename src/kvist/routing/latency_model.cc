#include "kvist/routing/latency_model.h"

#include <algorithm>
#include <cmath>
#include <utility>

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
/// What is known from steps keeps this share of its weight with each whole answer that is learned from, and the other
/// way round. So a worker of which steps were seen once, and only whole answers since then, is what these say.
constexpr double kKeptPerOther = 0.8;
/// Standard deviation of a time to first token with no prompt before it, as a share of that time.
constexpr double kNoise = 0.15;

// The prior: a request waits for the rest of a step and for one whole step, and its way into the engine takes some tens
// of milliseconds (measured on vLLM and TensorRT-LLM).
constexpr double kPriorBaseMs = 30;
constexpr double kPriorSteps = 1.5;
/// The number of uncached tokens at which a prompt's attention takes as long as everything else: 20,000 to 40,000 for a
/// 70B model with grouped-query attention on an H200, fewer for smaller models.
constexpr double kPriorEvenTokens = 20'480;

WeightFilter::Row prior_weights(const spec::StepTimeSpec& prior) {
  const double token_ms = std::max(1e-4, to_milliseconds(prior.per_prefill_token));
  const double pair_ms =
      prior.per_prefill_pair_ns > 0 ? prior.per_prefill_pair_ns * 1e-6 : token_ms / (kPriorEvenTokens / 2);
  return {kPriorBaseMs, kPriorSteps, token_ms, pair_ms, 1};
}

/// Standard deviation of a time to first token as a share of it. The delay by the prompts before it is known less well
/// than its own prefill, so their share adds to the noise.
double noise_of(const PrefillWork& work, double ahead_tokens) {
  return kNoise + ahead_tokens / std::max(1.0, ahead_tokens + work.uncached);
}

}  // namespace

void PredictionError::observe(double predicted_ms, double observed_ms) {
  ++observations;
  const double share = std::max(0.02, 1 / static_cast<double>(observations));
  mean_absolute_ms += share * (std::abs(predicted_ms - observed_ms) - mean_absolute_ms);
  mean_observed_ms += share * (observed_ms - mean_observed_ms);
  mean_predicted_ms += share * (predicted_ms - mean_predicted_ms);
}

LatencyModel::LatencyModel(const spec::StepTimeSpec& prior) : prior_(prior), filter_(prior_weights(prior)) {}

double LatencyModel::prior_ms(std::uint32_t batch, std::uint64_t context_tokens) const {
  return to_milliseconds(prior_.fixed) + to_milliseconds(prior_.per_sequence) * batch +
         prior_.per_kv_token_ns * 1e-6 * static_cast<double>(context_tokens);
}

double LatencyModel::step_ms(std::uint32_t batch, std::uint64_t context_tokens) const {
  return prior_ms(batch, context_tokens) * ratio(batch);
}

double LatencyModel::first_token_ms(double step_ms, const PrefillWork& work) const {
  return std::max(0.0, filter_.weight(0) + filter_.weight(1) * step_ms + prefill_ms(work));
}

void LatencyModel::observe_step(std::uint32_t batch, std::uint64_t context_tokens, double gap_ms) {
  const double expected = step_ms(batch, context_tokens);
  step_error_.observe(expected, gap_ms);
  const double believed = std::clamp(gap_ms, expected / kOutlier, expected * kOutlier);
  const bool at_once = batch >= seen_.size();
  if (at_once) seen_.resize(batch + 1);
  Entry& entry = seen_[batch];
  entry.weight = std::min(entry.weight + 1, 1 / kLeastStepShare);
  entry.ratio += (believed / prior_ms(batch, context_tokens) - entry.ratio) * (1 / entry.weight);
  ++steps_since_smooth_;
  if (++since_smooth_ >= kSmoothEvery || at_once) smooth();
}

// Two passes carry the last observed entry below and above each batch size along, with a weight that falls with
// distance.
void LatencyModel::smooth() {
  const double kept = kKeptPerSmooth * std::pow(kKeptPerOther, since_smooth_ - steps_since_smooth_);
  for (Entry& entry : seen_) entry.weight *= kept;
  filter_.doubt(kScale, std::pow(kKeptPerOther, -2.0 * steps_since_smooth_));
  since_smooth_ = steps_since_smooth_ = 0;
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
  // Without a whole answer the factor of all sizes is the prior's.
  const double scale = filter_.weight(kScale);
  const double scale_weight =
      scale_known_ ? std::min(kNoise * kNoise * scale * scale / filter_.variance(kScale), kNeighbourWeight) : 0;
  double carried = scale;
  double carried_weight = kPriorWeight;
  for (std::size_t i = 0; i < size; ++i) pass(i, carried, carried_weight);
  carried = scale;
  carried_weight = 0;
  for (std::size_t i = size; i-- > 0;) pass(i, carried, carried_weight);
  for (std::size_t i = 0; i < size; ++i) {
    const double own = seen_[i].weight;
    const double all = own + weight[i] + scale_weight;
    if (all > 0) ratio_[i] = (sum[i] + seen_[i].ratio * own + scale * scale_weight) / all;
  }
}

bool LatencyModel::observe_first_token(const FirstTokenSample& sample) {
  const double expected = sample.queue_ms + first_token_ms(sample.step_ms, sample.work);
  first_token_error_.observe(expected, sample.ttft_ms);
  bool learned = true;
  if (sample.behind_ms > 0) {
    learned = observe_prefill(sample);
  } else if (sample.behind_peers) {
    // The error of the queue would become one of the base, which is what the queue of later ones counts from.
    learned = false;
  } else {
    const double observed = std::clamp(sample.ttft_ms, expected / kOutlier, expected * kOutlier) - sample.queue_ms;
    const double noise = noise_of(sample.work, sample.ahead_tokens) * std::max(expected, observed);
    filter_.learn({1, sample.step_ms, sample.work.uncached, sample.work.pairs(), 0}, observed, noise);
  }
  filter_.drift();
  return learned;
}

void LatencyModel::observe_first_token_beside(const FirstTokenSample& sample) {
  first_token_error_.observe(sample.queue_ms + first_token_ms(sample.step_ms, sample.work), sample.ttft_ms);
  filter_.drift();
}

// elapsed = queue + first token + prefill of those who came later + steps x step. All are learned at once, because what
// one of them was follows only from how they vary together: an error of the steps that was taken for a noise would end
// up in the first token's weights, a little with each answer.
LatencyModel::WholeAnswer LatencyModel::parts_of(const WholeAnswerSample& sample) const {
  WholeAnswer whole;
  whole.first_x = {1, sample.step_ms, sample.work.uncached, sample.work.pairs(), 0};
  whole.x = whole.first_x;
  whole.x[2] += sample.others.uncached;
  whole.x[3] += sample.others.pairs;
  whole.x[kScale] = sample.steps * prior_ms(sample.batch, sample.context_tokens);
  const double answer_ms = whole.x[kScale] * filter_.weight(kScale);
  const double others_ms = prefill_ms_of(sample.others);
  whole.first_ms = sample.queue_ms + first_token_ms(sample.step_ms, sample.work);
  whole.all_ms = whole.first_ms + others_ms + answer_ms;
  whole.first_noise = noise_of(sample.work, sample.ahead_tokens) * whole.first_ms;
  // The steps of one answer are correlated, so n of them have the noise of the square root of n.
  const double steps_noise = kNoise * answer_ms / std::sqrt(std::sqrt(std::max(1.0, sample.steps)));
  whole.noise = std::hypot(whole.first_noise, kNoise * others_ms, steps_noise);
  return whole;
}

void LatencyModel::observe_whole_answer(const WholeAnswerSample& sample) {
  ++whole_answers_;
  const WholeAnswer whole = parts_of(sample);
  const double elapsed = std::clamp(sample.elapsed_ms, whole.all_ms / kOutlier, whole.all_ms * kOutlier);
  filter_.learn(whole.x, elapsed - sample.queue_ms, whole.noise * std::max(1.0, elapsed / whole.all_ms));
  filter_.drift();
  if (sample.steps <= 0) return;
  const bool first = !std::exchange(scale_known_, true);
  if (seen_.empty()) seen_.resize(1);
  if (++since_smooth_ >= kSmoothEvery || first) smooth();
}

// The mean of a part of a normal sum, given the sum.
double LatencyModel::first_token_after_ms(const WholeAnswerSample& sample) const {
  const WholeAnswer whole = parts_of(sample);
  const double together = filter_.covariance(whole.first_x, whole.x) + whole.first_noise * whole.first_noise;
  const double all = filter_.covariance(whole.x, whole.x) + whole.noise * whole.noise;
  const double error = sample.elapsed_ms - whole.all_ms;
  return std::clamp(whole.first_ms + (all > 0 ? error * together / all : 0), 0.0, sample.elapsed_ms);
}

// When the first token of the prompt before it came, the request was in the engine and its prompt was the next. So the
// time from then on is one step plus the prefill of all that was computed in it. Two first tokens of the same step say
// nothing about prefill.
bool LatencyModel::observe_prefill(const FirstTokenSample& sample) {
  const double gap_ms = sample.ttft_ms - sample.behind_ms;
  PrefillSum all = sample.between;
  all.add(sample.beside);
  all.add(sample.work);
  const double expected = prefill_ms_of(all);
  if (gap_ms < sample.step_ms || expected < sample.step_ms) return false;
  const double observed = std::clamp(gap_ms - sample.step_ms, expected / kOutlier, expected * kOutlier);
  filter_.learn({0, 0, all.uncached, all.pairs, 0}, observed, kNoise * std::max(expected, observed) + sample.step_ms);
  return true;
}

}  // namespace kvist::routing

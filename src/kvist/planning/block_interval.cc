#include "kvist/planning/block_interval.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "kvist/base/statistics.h"
#include "kvist/base/student_t.h"

namespace kvist::planning {
namespace {

using BlockParts = std::array<BlockPart, kBlocks>;

struct HalfInterval {
  double half = 0;
  std::size_t blocks = 0;
};

/// Of a weighted mean over blocks: that of a ratio of sums, which both vary.
std::optional<HalfInterval> half_interval(const BlockParts& parts, double confidence) {
  HalfInterval found;
  double weight = 0;
  double sum = 0;
  for (const BlockPart& part : parts) {
    found.blocks += part.weight > 0 ? 1 : 0;
    weight += part.weight;
    sum += part.weight * part.value;
  }
  if (found.blocks < kLeastBlocks) return std::nullopt;
  double squares = 0;
  for (const BlockPart& part : parts) {
    const double deviation = part.weight * (part.value - sum / weight);
    squares += deviation * deviation;
  }
  const auto n = static_cast<double>(found.blocks);
  found.half = student_t_quantile(confidence, found.blocks - 1) * std::sqrt(squares * n / (n - 1)) / weight;
  return found;
}

std::optional<BlockInterval> interval_of_part(std::span<const BlockSamples> replays, Headline figure,
                                              double confidence) {
  BlockParts together = {};
  std::size_t turns = 0;
  for (const BlockSamples& replay : replays) {
    turns += replay.turns;
    for (std::size_t block = 0; block < std::min(kBlocks, replay.of(figure).size()); ++block) {
      const BlockPart& part = replay.of(figure)[block];
      BlockPart& sum = together[block];
      if (part.weight <= 0) continue;
      sum.value = (sum.value * sum.weight + part.value * part.weight) / (sum.weight + part.weight);
      sum.weight += part.weight;
    }
  }
  if (analysis::headline(figure).is_percentage() && turns < kLeastTurnsOfShare * replays.size()) return std::nullopt;
  std::optional<HalfInterval> found = half_interval(together, confidence);
  if (!found) return std::nullopt;
  // Where no turn differs from another, blocks do not either. So few may be all alike by chance (the rule of three).
  if (analysis::headline(figure).is_percentage() && found->half == 0) {
    const double each = static_cast<double>(turns) / static_cast<double>(replays.size());
    found->half = 100 * (1 - std::pow(1 - confidence, 1 / each));
  }
  return BlockInterval{.below = found->half, .above = found->half, .blocks = found->blocks};
}

std::vector<BlockSample> pooled(std::span<const BlockSamples> replays, Timing timing) {
  std::vector<BlockSample> times;
  for (const BlockSamples& replay : replays) {
    times.insert(times.end(), replay.of(timing).begin(), replay.of(timing).end());
  }
  std::ranges::sort(times, {}, &BlockSample::value);
  return times;
}

/// Of each block, the share of its times below `value`. Those that equal it count by half: where many do, all of them
/// below or all above would hide how blocks differ.
BlockParts shares_below(double value, const std::vector<BlockSample>& times) {
  BlockParts shares = {};
  for (const BlockSample& time : times) {
    BlockPart& share = shares[time.block];
    ++share.weight;
    const auto found = static_cast<double>(time.value);
    share.value += found < value ? 1 : found == value ? 0.5 : 0;
  }
  for (BlockPart& share : shares) share.value /= std::max(share.weight, 1.0);
  return shares;
}

std::optional<BlockInterval> interval_of_quantile(std::span<const BlockSamples> replays, const TimingQuantile& of,
                                                  double confidence) {
  const std::vector<BlockSample> times = pooled(replays, of.timing);
  const auto samples = static_cast<double>(times.size()) / static_cast<double>(replays.size());
  // A little less, because 1 - 0.95 is not quite 0.05.
  if (samples * (1 - of.q) < kLeastBeyond * (1 - 1e-9)) return std::nullopt;
  std::vector<double> values;
  values.reserve(times.size());
  for (const BlockSample& time : times) values.push_back(static_cast<double>(time.value));
  const double value = quantile_of_sorted(values, of.q);
  const std::optional<HalfInterval> share = half_interval(shares_below(value, times), confidence);
  if (!share) return std::nullopt;
  return BlockInterval{.below = value - quantile_of_sorted(values, std::max(0.0, of.q - share->half)),
                       .above = quantile_of_sorted(values, std::min(1.0, of.q + share->half)) - value,
                       .blocks = share->blocks};
}

}  // namespace

std::optional<BlockInterval> block_interval(std::span<const BlockSamples> replays, Headline figure, double confidence) {
  if (replays.empty()) return std::nullopt;
  const std::optional<TimingQuantile> quantile = timing_quantile(figure);
  return quantile ? interval_of_quantile(replays, *quantile, confidence)
                  : interval_of_part(replays, figure, confidence);
}

}  // namespace kvist::planning

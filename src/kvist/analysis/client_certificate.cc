#include "kvist/analysis/client_certificate.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "kvist/analysis/level_analysis.h"
#include "kvist/analysis/sample_summary.h"
#include "kvist/base/statistics.h"

namespace kvist::analysis {
namespace {

using results::BoundedFigure;
using results::ClientCertificate;
using results::ClientShare;
using workload::TurnSample;

/// Samples as they were measured, and two lists whose order statistics are below and above those of the true ones.
struct BoundedSamples {
  std::vector<float> measured, low, high;

  void add(float value, float least, float most) {
    measured.push_back(value);
    low.push_back(std::max(least, 0.0F));
    high.push_back(most);
  }
};

/// How long before its read a chunk arrived, between two bounds.
class ChunkAges {
 public:
  explicit ChunkAges(const TurnSample& turn) : turn_(turn) {}
  [[nodiscard]] float least(std::size_t chunk) const { return turn_.late_ms[chunk]; }
  [[nodiscard]] float most(std::size_t chunk) const { return least(chunk) + unsure(chunk); }
  [[nodiscard]] bool exact(std::size_t chunk) const { return unsure(chunk) <= 0; }

 private:
  // The list may end before the last chunk. Chunks that it does not have are known exactly.
  [[nodiscard]] float unsure(std::size_t chunk) const {
    return chunk < turn_.unsure_ms.size() ? turn_.unsure_ms[chunk] : 0;
  }

  const TurnSample& turn_;
};

bool says_when_chunks_arrived(const TurnSample& turn) {
  return turn.late_ms.size() == turn.chunks && turn.gaps_ms.size() + 1 == turn.chunks;
}

/// The gaps between the chunks `first` and `last`, of which only these two have arrivals that are known well. Gap i is
/// that before chunk i + 1.
void add_gaps(const TurnSample& turn, std::size_t first, std::size_t last, BoundedSamples& gaps) {
  const ChunkAges ages(turn);
  const std::size_t before = gaps.measured.size();
  float together = 0;
  for (std::size_t i = first; i < last; ++i) {
    const float gap = turn.gaps_ms[i];
    together += gap;
    gaps.add(gap, gap - ages.most(i + 1) + ages.least(i), gap - ages.least(i + 1) + ages.most(i));
  }
  if (last - first < 2) return;
  const float at_most = together - ages.least(last) + ages.most(first);
  const float at_least = together - ages.most(last) + ages.least(first);
  const std::span<float> high = std::span(gaps.high).subspan(before);
  std::ranges::sort(high, std::greater<>());
  for (std::size_t i = 0; i < high.size(); ++i) high[i] = std::min(high[i], at_most / static_cast<float>(i + 1));
  // Not all can be shorter than their mean.
  const std::span<float> low = std::span(gaps.low).subspan(before);
  const auto longest = std::ranges::max_element(low);
  *longest = std::max(*longest, at_least / static_cast<float>(low.size()));
}

void add_gaps(const TurnSample& turn, BoundedSamples& gaps) {
  const ChunkAges ages(turn);
  std::size_t first = 0;
  for (std::size_t chunk = 1; chunk < turn.chunks; ++chunk) {
    if (!ages.exact(chunk) && chunk + 1 < turn.chunks) continue;
    add_gaps(turn, first, chunk, gaps);
    first = chunk;
  }
}

constexpr std::array kBoundedPercentiles = {0.50, 0.95, 0.99};

/// By how far pauses have moved the percentiles that are to be set.
struct PauseShifts {
  std::vector<double> up, down;
};

/// A pause makes a time longer that ends in it, and one shorter that begins in it.
PauseShifts ttft_shifts(const BoundedSamples& ttft, const PauseLaw& pauses) {
  return {.up = pause_shifts(ttft.low, pauses, kBoundedPercentiles),
          // A turn's sending is a system call, whose length is in the bounds already.
          .down = std::vector<double>(kBoundedPercentiles.size(), 0)};
}
PauseShifts gap_shifts(const BoundedSamples& gaps, const PauseLaw& pauses) {
  if (pauses.none()) return ttft_shifts(gaps, pauses);
  std::vector<float> mirrored(gaps.high.size());
  std::ranges::transform(gaps.high, mirrored.begin(), std::negate<>());
  std::array<double, kBoundedPercentiles.size()> from_above{};
  std::ranges::transform(kBoundedPercentiles, from_above.begin(), [](double q) { return 1 - q; });
  return {.up = pause_shifts(gaps.low, pauses, kBoundedPercentiles),
          .down = pause_shifts(mirrored, pauses, from_above)};
}

void set_shares(BoundedSamples& samples, BoundedFigure p50, const PauseShifts& shifts, ClientCertificate& certificate) {
  if (samples.measured.empty()) return;
  const Distribution measured = describe_in_place(samples.measured);
  const Distribution low = describe_in_place(samples.low);
  const Distribution high = describe_in_place(samples.high);
  std::size_t i = 0;
  for (const auto percentile : {&Distribution::p50, &Distribution::p95, &Distribution::p99}) {
    certificate.shares[static_cast<std::size_t>(p50) + i] =
        ClientShare{.low_ms = measured.*percentile - high.*percentile - shifts.down[i],
                    .high_ms = measured.*percentile - low.*percentile + shifts.up[i]};
    ++i;
  }
}

void set_dispatch(const results::LevelRecord& level, ClientCertificate& certificate) {
  std::vector<double> delays;
  for (const TurnSample& turn : level.turns) {
    const bool counts =
        turn.handed != TimePoint{} && turn.handed >= level.measure_from && turn.handed <= level.measure_to;
    // A start that waited for a place was held back by the order and not by the client.
    if (counts) delays.push_back(to_milliseconds(turn.handed - std::max(turn.ready, turn.intended)));
  }
  const Distribution delay = describe(std::move(delays));
  certificate.dispatch_delay_p99_ms = delay.p99;
  certificate.dispatch_delay_max_ms = delay.max;
}

void add_pauses(results::ClientPauses& merged, const results::ClientPauses& other) {
  merged.count += other.count;
  merged.real_time = merged.real_time && other.real_time;
  for (const auto worst :
       {&results::ClientPauses::share, &results::ClientPauses::p99_ms, &results::ClientPauses::p999_ms,
        &results::ClientPauses::max_ms, &results::ClientPauses::cpu_share}) {
    merged.*worst = std::max(merged.*worst, other.*worst);
  }
}

}  // namespace

std::optional<ClientCertificate> certify(const results::LevelRecord& level, const PauseLaw& pauses) {
  ClientCertificate certificate;
  BoundedSamples ttft;
  BoundedSamples gaps;
  std::vector<float> late;
  for (const TurnSample& turn : level.turns) {
    if (!counts_for_percentiles(level, turn) || !has_first_token(turn)) continue;
    if (!says_when_chunks_arrived(turn)) return std::nullopt;
    const ChunkAges ages(turn);
    const auto value = static_cast<float>(turn.ttft_ms());
    ttft.add(value, value - ages.most(0), value - ages.least(0) + turn.longest_send_ms);
    add_gaps(turn, gaps);
    certificate.chunks += turn.chunks;
    certificate.stamped_chunks += turn.chunks - std::min(turn.unstamped, turn.chunks);
    late.insert(late.end(), turn.late_ms.begin(), turn.late_ms.end());
  }
  const Distribution receive = describe_in_place(late);
  certificate.receive_delay_p50_ms = receive.p50;
  certificate.receive_delay_p99_ms = receive.p99;
  certificate.receive_delay_max_ms = receive.max;
  set_shares(ttft, BoundedFigure::kTtftP50, ttft_shifts(ttft, pauses), certificate);
  set_shares(gaps, BoundedFigure::kItlP50, gap_shifts(gaps, pauses), certificate);
  set_dispatch(level, certificate);
  return certificate;
}

void add_certificate(std::optional<ClientCertificate>& merged, const std::optional<ClientCertificate>& other) {
  if (!merged || !other) {
    if (other) merged = other;
    return;
  }
  for (const auto count :
       {&ClientCertificate::chunks, &ClientCertificate::stamped_chunks, &ClientCertificate::loop_stalls}) {
    (*merged).*count += (*other).*count;
  }
  merged->loop_stalled_ms += other->loop_stalled_ms;
  for (const auto delay : {&ClientCertificate::receive_delay_p50_ms, &ClientCertificate::receive_delay_p99_ms,
                           &ClientCertificate::receive_delay_max_ms, &ClientCertificate::dispatch_delay_p99_ms,
                           &ClientCertificate::dispatch_delay_max_ms}) {
    (*merged).*delay = std::max((*merged).*delay, (*other).*delay);
  }
  for (const auto share : {&ClientCertificate::run_queue_share, &ClientCertificate::steal_share}) {
    if ((*other).*share) (*merged).*share = std::max(((*merged).*share).value_or(0), *((*other).*share));
  }
  if (other->pauses) {
    if (merged->pauses) {
      add_pauses(*merged->pauses, *other->pauses);
    } else {
      merged->pauses = other->pauses;
    }
  }
  for (std::size_t i = 0; i < merged->shares.size(); ++i) {
    const std::optional<ClientShare>& share = other->shares[i];
    if (share && (!merged->shares[i] || share->worst_ms() > merged->shares[i]->worst_ms())) merged->shares[i] = share;
  }
}

}  // namespace kvist::analysis

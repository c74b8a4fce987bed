#include "kvist/analysis/client_certificate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <vector>

#include "analysis/sample_run.h"
#include "kvist/analysis/level_analysis.h"
#include "kvist/base/statistics.h"

namespace kvist::analysis::client_certificate_test {
namespace {

using results::BoundedFigure;
using results::ClientCertificate;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr double kFloat = 1e-3;  // samples are kept as 4-byte numbers

/// A turn as a client sees it whose chunks arrived at `arrivals` (ms after it was sent) and were read at `reads`. Of
/// chunks of one read only the last one's arrival is known; the others came after `looked`, the instant at which the
/// loop had looked before.
struct Chunk {
  double arrived = 0;
  double read = 0;
};
workload::TurnSample turn_of(const std::vector<Chunk>& chunks, double looked_before_ms = 0) {
  workload::TurnSample turn;
  turn.intended = turn.handed = turn.sent = at_ms(10'000);
  turn.chunks = static_cast<std::uint32_t>(chunks.size());
  turn.completion_tokens = turn.chunks;
  turn.first_token = turn.sent + from_milliseconds(chunks.front().read);
  turn.last_token = turn.sent + from_milliseconds(chunks.back().read);
  turn.ended = turn.last_token;
  turn.unsure_ms.assign(chunks.size(), 0);
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    if (i > 0) turn.gaps_ms.push_back(static_cast<float>(chunks[i].read - chunks[i - 1].read));
    std::size_t last = i;
    while (last + 1 < chunks.size() && chunks[last + 1].read <= chunks[i].read) ++last;
    turn.late_ms.push_back(static_cast<float>(chunks[i].read - chunks[last].arrived));
    if (i < last) turn.unsure_ms[i] = static_cast<float>(chunks[last].arrived - looked_before_ms);
  }
  return turn;
}

results::LevelRecord level_of(std::vector<workload::TurnSample> turns) {
  results::LevelRecord level;
  level.measure_from = at_ms(5'000);
  level.measure_to = at_ms(50'000);
  level.turns = std::move(turns);
  return level;
}

void expect_share(const ClientCertificate& certificate, BoundedFigure figure, double low, double high) {
  ASSERT_TRUE(certificate.share(figure).has_value());
  EXPECT_NEAR(certificate.share(figure)->low_ms, low, kFloat);
  EXPECT_NEAR(certificate.share(figure)->high_ms, high, kFloat);
}

TEST(ClientCertificate, AKnownLatenessIsTheShareExactly) {
  // Every chunk lay 2 ms in the kernel: TTFT is 2 ms too long, and no gap is wrong.
  const auto certificate = certify(level_of({turn_of({{50, 52}, {70, 72}, {90, 92}, {110, 112}})}));
  ASSERT_TRUE(certificate.has_value());
  for (const auto figure : {BoundedFigure::kTtftP50, BoundedFigure::kTtftP95, BoundedFigure::kTtftP99}) {
    expect_share(*certificate, figure, 2, 2);
  }
  for (const auto figure : {BoundedFigure::kItlP50, BoundedFigure::kItlP95, BoundedFigure::kItlP99}) {
    expect_share(*certificate, figure, 0, 0);
  }
  EXPECT_EQ(certificate->chunks, 4U);
  EXPECT_EQ(certificate->stamped_chunks, 4U);
  EXPECT_NEAR(certificate->receive_delay_p50_ms, 2, kFloat);
  EXPECT_NEAR(certificate->receive_delay_max_ms, 2, kFloat);
}

TEST(ClientCertificate, ALongSendMakesTtftTooShort) {
  workload::TurnSample turn = turn_of({{50, 50}});
  turn.longest_send_ms = 4;
  const auto certificate = certify(level_of({turn}));
  expect_share(*certificate, BoundedFigure::kTtftP50, -4, 0);
  EXPECT_FALSE(certificate->share(BoundedFigure::kItlP50).has_value()) << "there is no gap";
}

TEST(ClientCertificate, OneLateChunkMovesTwoGaps) {
  // Gaps of 20 ms; the third chunk was read 30 ms late, and the fourth right after it.
  const auto certificate = certify(level_of({turn_of({{50, 50}, {70, 70}, {90, 120}, {110, 120.5}, {130, 130}})}));
  // Measured: 20, 50, 0.5, 9.5; true: 20 all.
  expect_share(*certificate, BoundedFigure::kItlP50, 14.75 - 20, 14.75 - 20);
  expect_share(*certificate, BoundedFigure::kItlP99, 0.97 * 50 + 0.03 * 20 - 20, 0.97 * 50 + 0.03 * 20 - 20);
}

TEST(ClientCertificate, GapsWithinOneReadShareTheirTime) {
  // Four chunks of one read after a stall of 80 ms: three arrivals are unknown, but the gaps are 80 ms together.
  const auto certificate = certify(level_of({turn_of({{50, 50}, {70, 130}, {90, 130}, {110, 130}, {130, 130}}, 50)}));
  // Measured 80, 0, 0, 0. Of the true gaps the i-th longest is at most 80 / i: 80, 40, 26.7, 20; the longest is at
  // least 20.
  const std::vector<double> high = {20, 80.0 / 3, 40, 80};
  const std::vector<double> low = {0, 0, 0, 20};
  expect_share(*certificate, BoundedFigure::kItlP50, 0 - quantile_of_sorted(high, 0.5), 0);
  const double p99 = quantile_of_sorted(std::vector<double>{0, 0, 0, 80}, 0.99);
  expect_share(*certificate, BoundedFigure::kItlP99, p99 - quantile_of_sorted(high, 0.99),
               p99 - quantile_of_sorted(low, 0.99));
}

TEST(ClientCertificate, WithoutAnyStampTheLoopsOwnLooksBoundIt) {
  workload::TurnSample turn = turn_of({{50, 50}, {70, 70}, {90, 90}});
  turn.unsure_ms.assign(3, 5);
  turn.unstamped = 3;
  const auto certificate = certify(level_of({turn}));
  EXPECT_EQ(certificate->stamped_chunks, 0U);
  expect_share(*certificate, BoundedFigure::kTtftP50, 0, 5);
  EXPECT_GE(certificate->share(BoundedFigure::kItlP50)->low_ms, -5 - kFloat);
  EXPECT_LE(certificate->share(BoundedFigure::kItlP50)->high_ms, 5 + kFloat);
}

TEST(ClientCertificate, CountsTheTurnsOfTheFiguresAndNoOthers) {
  workload::TurnSample early = turn_of({{50, 150}});
  early.sent = at_ms(1'000);
  workload::TurnSample failed = turn_of({{50, 150}});
  failed.outcome = workload::TurnOutcome::kFailed;
  workload::TurnSample late = turn_of({{50, 50}});
  late.handed = late.intended + std::chrono::milliseconds(7);
  const auto certificate = certify(level_of({early, failed, late}));
  EXPECT_EQ(certificate->chunks, 1U);
  expect_share(*certificate, BoundedFigure::kTtftP99, 0, 0);
  EXPECT_NEAR(certificate->dispatch_delay_max_ms, 7, 1e-9);
}

TEST(ClientCertificate, IsUnknownWhereOneTurnDoesNotSayWhenItsChunksArrived) {
  workload::TurnSample silent = turn_of({{50, 50}, {60, 60}});
  silent.late_ms.clear();
  EXPECT_FALSE(certify(level_of({turn_of({{50, 50}}), silent})).has_value());
  const auto nothing = certify(level_of({}));
  ASSERT_TRUE(nothing.has_value());
  EXPECT_EQ(nothing->chunks, 0U);
  EXPECT_FALSE(nothing->share(BoundedFigure::kTtftP50).has_value());
}

/// Streams whose true times are known, read by a client that is stopped now and then.
struct Starved {
  std::vector<workload::TurnSample> turns;
  std::vector<double> ttft, gaps;  // the true ones
};
Starved starve(std::mt19937_64& random, double every_ms, double stop_ms) {
  Starved starved;
  std::uniform_real_distribution<double> jitter(0, 1);
  for (int stream = 0; stream < 20; ++stream) {
    const double begin = 37.0 * stream;
    std::vector<Chunk> chunks;
    double at = begin + 40 + 20 * jitter(random);
    double previous = 0;
    for (int token = 0; token < 100; ++token, at += 10 + 20 * jitter(random)) {
      if (token == 0) starved.ttft.push_back(at - begin);
      if (token > 0) starved.gaps.push_back(at - previous);
      previous = at;
      const double phase = std::fmod(at, every_ms);
      const bool stopped = phase < stop_ms;
      chunks.push_back(
          {.arrived = at - begin, .read = (stopped ? at - phase + stop_ms : at + 0.05 * jitter(random)) - begin});
    }
    // Of what it found after a stop, the client knows no more than that it came within the stop.
    workload::TurnSample turn = turn_of(chunks);
    for (std::size_t i = 0; i < chunks.size(); ++i) {
      if (turn.unsure_ms[i] > 0) turn.unsure_ms[i] = static_cast<float>(stop_ms) - turn.late_ms[i];
    }
    starved.turns.push_back(std::move(turn));
  }
  return starved;
}

TEST(ClientCertificate, TheTrueFiguresAreWithinTheBoundsHoweverTheClientIsStopped) {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    std::mt19937_64 random(seed);
    const double stop = 5 + 20.0 * static_cast<double>(seed % 10);
    const Starved starved = starve(random, 400 + 30.0 * static_cast<double>(seed % 7), stop);
    const results::LevelRecord level = level_of(starved.turns);
    const LevelAnalysis measured = analyse(level, {});
    const auto certificate = certify(level);
    const Distribution ttft = describe(starved.ttft);
    const Distribution gaps = describe(starved.gaps);
    std::size_t figure = 0;
    for (const auto& [seen, is] : {std::pair{measured.exact.ttft_ms, ttft}, std::pair{measured.exact.itl_ms, gaps}}) {
      for (const auto percentile : {&Distribution::p50, &Distribution::p95, &Distribution::p99}) {
        const auto& share = certificate->shares[figure++];
        ASSERT_TRUE(share.has_value());
        EXPECT_GE(seen.*percentile - is.*percentile, share->low_ms - kFloat) << "seed " << seed << " figure " << figure;
        EXPECT_LE(seen.*percentile - is.*percentile, share->high_ms + kFloat)
            << "seed " << seed << " figure " << figure;
        EXPECT_LE(share->worst_ms(), stop + kFloat) << "no chunk was later than a stop";
      }
    }
  }
}

/// A processor that runs nothing now and then. Where it is paused, a chunk is stamped and read when it runs again.
class PausingProcessor {
 public:
  PausingProcessor(std::mt19937_64& random, double until_ms, double share, double mean_pause_ms) {
    std::exponential_distribution<double> pause(1 / mean_pause_ms);
    std::exponential_distribution<double> run(share / ((1 - share) * mean_pause_ms));
    for (double at = run(random); at < until_ms; at += run(random)) {
      begins_.push_back(at);
      at += pause(random);
      ends_.push_back(at);
    }
  }

  [[nodiscard]] double runs_again(double at) const {
    const auto next = std::ranges::upper_bound(begins_, at);
    if (next == begins_.begin()) return at;
    return std::max(at, ends_[static_cast<std::size_t>(next - begins_.begin()) - 1]);
  }
  /// What a watcher sees who looks at equal distances.
  [[nodiscard]] PauseLaw watched(double until_ms) const {
    constexpr double kBin = 0.25;
    std::map<int, double> late;
    int looks = 0;
    for (double at = 0; at < until_ms; at += 3.7, ++looks) {
      const double left = runs_again(at) - at;
      if (left > kBin) ++late[static_cast<int>(std::ceil(left / kBin))];
    }
    std::vector<PauseLaw::Bin> bins;
    for (const auto& [bin, count] : late) bins.push_back({.ms = bin * kBin, .share = count / looks});
    return {std::move(bins), begins_.size()};
  }

 private:
  std::vector<double> begins_, ends_;
};

TEST(ClientCertificate, TheTrueFiguresAreWithinTheBoundsWhereNothingWasStampedInPauses) {
  constexpr double kUntil = 120'000;
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    std::mt19937_64 random(seed);
    const PausingProcessor processor(random, kUntil, 0.01 + 0.01 * static_cast<double>(seed % 8),
                                     2 + 3 * static_cast<double>(seed % 4));
    std::uniform_real_distribution<double> when(0, kUntil - 5'000);
    std::lognormal_distribution<double> ttft_law(3.5, 0.7);
    std::exponential_distribution<double> jitter(1 / 4.0);
    std::vector<double> ttft, gaps;
    std::vector<workload::TurnSample> turns;
    for (int stream = 0; stream < 3'000; ++stream) {
      const double begin = when(random);
      double at = begin + ttft_law(random);
      double previous = at;
      std::vector<Chunk> chunks;
      for (int token = 0; token < 12; ++token) {
        if (token == 0) ttft.push_back(at - begin);
        if (token > 0) gaps.push_back(at - previous);
        previous = at;
        const double seen = processor.runs_again(at) - begin;
        // Chunks that are read together are stamped one after the other, in the order of their arrival.
        chunks.push_back({.arrived = seen, .read = seen + 1e-3 * token});
        at += 12 + jitter(random);
      }
      turns.push_back(turn_of(chunks));
    }
    const results::LevelRecord level = level_of(turns);
    const LevelAnalysis measured = analyse(level, {});
    const auto certificate = certify(level, processor.watched(kUntil));
    const auto blind = certify(level);
    const Distribution true_ttft = describe(ttft);
    const Distribution true_gaps = describe(gaps);
    std::size_t figure = 0;
    for (const auto& [seen, is] :
         {std::pair{measured.exact.ttft_ms, true_ttft}, std::pair{measured.exact.itl_ms, true_gaps}}) {
      for (const auto percentile : {&Distribution::p50, &Distribution::p95, &Distribution::p99}) {
        const results::ClientShare share = certificate->shares[figure].value();
        const double own = seen.*percentile - is.*percentile;
        // The chance of the draws: 30 turns are above the p99 of TTFT.
        const double slack = 0.15 + (figure == 2 ? 0.05 : 0.02) * is.*percentile;
        EXPECT_GE(own, share.low_ms - slack) << "seed " << seed << " figure " << figure;
        EXPECT_LE(own, share.high_ms + slack) << "seed " << seed << " figure " << figure;
        EXPECT_LE(share.high_ms, 2 * std::max(own, 0.0) + 0.5 + slack)
            << "a bound, and not by far: seed " << seed << " figure " << figure;
        EXPECT_LE(blind->shares[figure]->worst_ms(), share.worst_ms() + 1e-9) << "pauses make it no narrower";
        ++figure;
      }
    }
  }
}

TEST(ClientCertificate, RepetitionsHaveTheWorstOfEach) {
  std::optional<ClientCertificate> merged;
  add_certificate(merged, std::nullopt);
  EXPECT_FALSE(merged.has_value());
  ClientCertificate first{.chunks = 10, .stamped_chunks = 10, .receive_delay_p99_ms = 1, .loop_stalls = 1};
  first.shares[0] = results::ClientShare{.low_ms = -3, .high_ms = 1};
  ClientCertificate second{.chunks = 5, .stamped_chunks = 4, .receive_delay_p99_ms = 2, .run_queue_share = 0.5};
  second.shares[0] = results::ClientShare{.low_ms = -1, .high_ms = 2};
  second.shares[3] = results::ClientShare{.low_ms = 0, .high_ms = 1};
  first.pauses = results::ClientPauses{.count = 3, .share = 0.1, .p99_ms = 1, .max_ms = 9, .real_time = true};
  second.pauses = results::ClientPauses{.count = 4, .share = 0.05, .p99_ms = 2, .max_ms = 4, .real_time = false};
  add_certificate(merged, first);
  EXPECT_EQ(merged->pauses, first.pauses);
  add_certificate(merged, second);
  EXPECT_EQ(merged->pauses,
            (results::ClientPauses{.count = 7, .share = 0.1, .p99_ms = 2, .max_ms = 9, .real_time = false}));
  EXPECT_EQ(merged->chunks, 15U);
  EXPECT_EQ(merged->stamped_chunks, 14U);
  EXPECT_EQ(merged->loop_stalls, 1U);
  EXPECT_EQ(merged->receive_delay_p99_ms, 2);
  EXPECT_EQ(merged->run_queue_share, 0.5);
  EXPECT_EQ(merged->shares[0], first.shares[0]);
  EXPECT_EQ(merged->shares[3], second.shares[3]);
}

Distribution of(double p50, double p95, double p99) {
  return {.count = 100, .p50 = p50, .p95 = p95, .p99 = p99};
}

results::ClientHealth health(BoundedFigure figure, results::ClientShare share) {
  results::ClientHealth health;
  health.cpu_share = 0.99;           // what a certificate has measured in another way
  health.loop_delay_p99_ms = 1'000;  // as well
  health.certificate = ClientCertificate{.chunks = 1, .stamped_chunks = 1};
  health.certificate->shares[static_cast<std::size_t>(figure)] = share;
  return health;
}

TEST(ClientVerdict, GradesByTheShareOfEachFigure) {
  const Distribution ttft = of(100, 200, 400);
  const Distribution itl = of(5, 6, 20);
  const auto grade = [&](BoundedFigure figure, double low, double high) {
    return client_verdict(health(figure, {.low_ms = low, .high_ms = high}), ttft, itl).grade;
  };
  EXPECT_EQ(grade(BoundedFigure::kTtftP50, 0, 5), ClientGrade::kValid) << "5 % of 100 ms";
  EXPECT_EQ(grade(BoundedFigure::kTtftP50, 0, 5.1), ClientGrade::kDegraded);
  EXPECT_EQ(grade(BoundedFigure::kTtftP50, -5.1, 0), ClientGrade::kDegraded) << "too short is as wrong as too long";
  EXPECT_EQ(grade(BoundedFigure::kTtftP50, 0, 25), ClientGrade::kDegraded);
  EXPECT_EQ(grade(BoundedFigure::kTtftP50, 0, 25.1), ClientGrade::kInvalid);
  EXPECT_EQ(grade(BoundedFigure::kTtftP99, 0, 20), ClientGrade::kValid) << "5 % of 400 ms";
  EXPECT_EQ(grade(BoundedFigure::kItlP50, 0, 1), ClientGrade::kValid) << "a millisecond is nothing";
  EXPECT_EQ(grade(BoundedFigure::kItlP50, 0, 5), ClientGrade::kDegraded);
  EXPECT_EQ(grade(BoundedFigure::kItlP50, 0, 5.1), ClientGrade::kInvalid);
  EXPECT_EQ(grade(BoundedFigure::kItlP99, 0, 1.1), ClientGrade::kDegraded);
}

TEST(ClientVerdict, SaysWhichFigureAndByHowMuch) {
  const ClientVerdict verdict =
      client_verdict(health(BoundedFigure::kItlP95, {.low_ms = -7, .high_ms = 2}), of(100, 200, 400), of(5, 6, 20));
  EXPECT_EQ(verdict.grade, ClientGrade::kInvalid);
  EXPECT_THAT(verdict.reasons, ElementsAre("7.0 ms of the ITL p95 (6.0 ms) may be the client's"));
}

TEST(ClientVerdict, LateTurnsAndStolenTimeDegrade) {
  results::ClientHealth client = health(BoundedFigure::kTtftP50, {});
  client.certificate->dispatch_delay_p99_ms = 0.9;
  client.certificate->steal_share = 0.02;
  EXPECT_THAT(client_verdict(client, of(1, 2, 4), {}).reasons, IsEmpty());
  client.certificate->dispatch_delay_p99_ms = 10.1;
  client.certificate->steal_share = 0.03;
  const ClientVerdict verdict = client_verdict(client, of(100, 1'000, 4'000), {});
  EXPECT_EQ(verdict.grade, ClientGrade::kDegraded);
  EXPECT_THAT(verdict.reasons, ElementsAre(HasSubstr("dispatch delay p99 10.1 ms is above 10 ms"),
                                           HasSubstr("the hypervisor took 3.0 %")));
}

TEST(ClientVerdict, StolenTimeWhosePausesWereMeasuredIsJudgedByWhatItMoved) {
  results::ClientHealth client = health(BoundedFigure::kTtftP50, {.low_ms = 0, .high_ms = 0.9});
  client.certificate->steal_share = 0.07;
  EXPECT_EQ(client_verdict(client, of(10, 20, 40), {}).grade, ClientGrade::kDegraded) << "nobody knows what it moved";
  client.certificate->pauses = results::ClientPauses{.count = 1'000, .share = 0.07, .p99_ms = 5};
  EXPECT_TRUE(client_verdict(client, of(10, 20, 40), {}).ok());
  client.certificate->shares[0]->high_ms = 1.1;
  EXPECT_EQ(client_verdict(client, of(10, 20, 40), {}).grade, ClientGrade::kDegraded);
}

TEST(ClientCertificate, WhatWaitedForAPlaceIsNotTheClientsLateness) {
  workload::TurnSample held_back = turn_of({{50, 50}, {60, 60}});
  held_back.intended = held_back.handed - std::chrono::seconds(3);
  held_back.ready = held_back.handed - std::chrono::milliseconds(2);
  const ClientCertificate certificate = certify(level_of({held_back})).value();
  EXPECT_NEAR(certificate.dispatch_delay_max_ms, 2, kFloat);
  held_back.ready = held_back.intended;
  EXPECT_NEAR(certify(level_of({held_back}))->dispatch_delay_max_ms, 3'000, kFloat);
}

}  // namespace
}  // namespace kvist::analysis::client_certificate_test

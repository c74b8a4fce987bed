#include "kvist/simulation/level.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "kvist/spec/files.h"
#include "simulation/runs.h"

namespace kvist::simulation::level_test {
namespace {

using spec::RoutingMode;
using workload::TurnOutcome;

struct Counts {
  std::uint64_t turns, output_tokens, steps, prompt_tokens, cached_tokens;
  friend bool operator==(const Counts&, const Counts&) = default;
  friend void PrintTo(const Counts& c, std::ostream* out) {
    *out << fmt::format("{{{}, {}, {}, {}, {}}}", c.turns, c.output_tokens, c.steps, c.prompt_tokens, c.cached_tokens);
  }
};

Counts counts(const LevelRun& run) {
  Counts c{run.turns.size(), run.outcome.output_tokens, run.outcome.steps, 0, 0};
  for (const WorkerOutcome& worker : run.outcome.workers) {
    c.prompt_tokens += worker.total.prompt_tokens;
    c.cached_tokens += worker.total.prefix_hit_tokens;
  }
  return c;
}

// The demo's first level, to the last token. A change here means that a decision of the live system changed: the
// scheduler, admission, the cache, routing, the workload, or the step-time model.
TEST(Level, TheDemoInVirtualTime) {
  const Result<spec::SweepSpec> sweep = spec::load_sweep(KVIST_SOURCE_DIR "/examples/sweeps/demo.yaml");
  ASSERT_TRUE(sweep) << sweep.error().message;
  const auto demo = [&](RoutingMode mode) {
    return counts(run_level(*sweep, {.mode = mode, .concurrency = 12, .seed = sweep->workload.seed}));
  };
  EXPECT_EQ(demo(RoutingMode::kRoundRobin), (Counts{179, 53'923, 13'967, 785'759, 630'432}));
  EXPECT_EQ(demo(RoutingMode::kDynamo), (Counts{186, 56'050, 14'389, 816'259, 746'432}));
}

TEST(Level, TheSameSeedGivesTheSameRun) {
  const spec::SweepSpec sweep = small_sweep();
  for (const RoutingMode mode : {RoutingMode::kRoundRobin, RoutingMode::kRandom, RoutingMode::kKv}) {
    const LevelPlan level{.mode = mode, .concurrency = 15, .seed = 5};
    const std::vector<std::string> once = in_words(run_level(sweep, level));
    EXPECT_EQ(once, in_words(run_level(sweep, level)));
    EXPECT_NE(once, in_words(run_level(sweep, {.mode = mode, .concurrency = 15, .seed = 6})));
  }
}

// The first worker's engine reserves memory for the longest answer that clients allow, four times what they get. It has
// room for a quarter of the requests that its blocks would hold, and leaves the others waiting. That it does is all
// that the router can see.
TEST(Level, AWorkerWhoseMemoryIsReservedIsNotForecastAsFree) {
  spec::SweepSpec sweep = small_sweep(2);
  for (spec::WorkerSpec& worker : sweep.deployment.workers) {
    worker.kv_blocks = 800;
    worker.max_batch_size = 32;
    worker.max_model_len = 6'000;
    worker.output_length = {.mean_tokens = 300, .standard_deviation_tokens = 60};
    worker.admission = spec::AdmissionKind::kGreedy;
  }
  sweep.deployment.workers[0].admission = spec::AdmissionKind::kReserveToCompletion;
  sweep.workload.turns_min = sweep.workload.turns_max = 1;
  sweep.workload.max_tokens = 1'200;
  sweep.method.warmup = std::chrono::seconds(60);
  sweep.method.snapshot_interval = std::chrono::seconds(60);
  sweep.method.window = std::chrono::seconds(50);
  const auto ttft_p95_ms = [&](RoutingMode mode) {
    const LevelRun run = run_level(sweep, {.mode = mode, .concurrency = 28, .seed = 5});
    std::vector<double> waits;
    for (const workload::TurnSample& turn : run.turns) {
      if (turn.outcome == TurnOutcome::kSucceeded && turn.intended >= run.outcome.measure_from)
        waits.push_back(to_milliseconds(turn.first_token - turn.intended));
    }
    EXPECT_GT(waits.size(), 300U);
    std::ranges::sort(waits);
    return waits[waits.size() * 95 / 100];
  };
  const double others = ttft_p95_ms(RoutingMode::kLeastLoaded);
  EXPECT_GT(others, 3'000);
  EXPECT_LT(ttft_p95_ms(RoutingMode::kKv), others / 3);
}

// From 512 workers on the memory of coming events is asked for ahead of them, and a second thread may compute engines.
TEST(Level, AnswersEveryoneInALargeFleet) {
  spec::SweepSpec sweep = small_sweep(520);
  for (spec::WorkerSpec& worker : sweep.deployment.workers) worker.kv_blocks = 300;
  sweep.workload.target_rps = 500;
  sweep.method.warmup = std::chrono::seconds(2);
  sweep.method.snapshot_interval = sweep.method.window = std::chrono::seconds(3);
  sweep.method.snapshots = 1;
  LevelPlan level{.mode = RoutingMode::kKv, .concurrency = 1'000, .seed = 9};
  const LevelRun run = run_level(sweep, level);
  EXPECT_GT(run.turns.size(), 1'000U);
  EXPECT_TRUE(std::ranges::all_of(
      run.turns, [](const workload::TurnSample& turn) { return turn.outcome == TurnOutcome::kSucceeded; }));
  level.second_thread = true;
  const LevelRun on_two = run_level(sweep, level);
  EXPECT_EQ(in_words(run), in_words(on_two));
  EXPECT_GT(on_two.outcome.ahead, run.outcome.steps / 2) << "most steps end before anything can reach their engine";
}

// A gateway that sees the ends of answers only knows who waits nearly as well as one that sees their tokens. With every
// answer under way counted as waiting it would be several times as many.
TEST(Level, AnswersThatAreNotStreamedDoNotLookLikeAQueue) {
  spec::SweepSpec sweep = small_sweep();
  for (spec::WorkerSpec& worker : sweep.deployment.workers) {
    worker.kv_blocks = 4'000;
    worker.max_batch_size = 32;
    worker.output_length = {.mean_tokens = 60, .standard_deviation_tokens = 4};
  }
  const auto waiting = [&](double unstreamed_share) {
    sweep.simulation.unstreamed_share = unstreamed_share;
    double sum = 0;
    double decisions = 0;
    const DecisionWatch watch = [&](const routing::DecisionRecord& record) {
      ++decisions;
      for (const routing::Candidate& candidate : record.candidates)
        sum += candidate.load.requests - candidate.load.decoding;
    };
    const LevelRun run = run_level(sweep, {.mode = RoutingMode::kKv, .concurrency = 30, .seed = 5, .watch = &watch});
    EXPECT_GT(run.turns.size(), 100U);
    for (const workload::TurnSample& turn : run.turns) EXPECT_NE(turn.outcome, TurnOutcome::kFailed) << turn.error;
    return sum / decisions;
  };
  const double seen = waiting(0);
  EXPECT_LT(waiting(1), 1.5 * seen + 0.5);
  EXPECT_LT(waiting(0.5), 1.5 * seen + 0.5);
}

/// Conversations whose histories need 1.5 times the memory.
spec::SweepSpec beyond_memory() {
  spec::SweepSpec sweep = small_sweep(2);
  for (spec::WorkerSpec& worker : sweep.deployment.workers) {
    worker.kv_blocks = 3'000;
    worker.max_batch_size = 32;
    worker.max_model_len = 20'000;
    worker.step_time.per_prefill_token = std::chrono::microseconds(300);
    worker.output_length = {.mean_tokens = 30, .standard_deviation_tokens = 4};
  }
  sweep.workload.starters = 0;
  sweep.workload.starter_tokens_min = 6'000;
  sweep.workload.starter_tokens_max = 8'000;
  sweep.workload.turns_min = sweep.workload.turns_max = 10;
  sweep.workload.request_timeout = std::chrono::minutes(10);
  sweep.method.warmup = std::chrono::seconds(600);
  sweep.method.window = std::chrono::seconds(300);
  return sweep;
}

// Each conversation would evict the next one's, and all of the time would
// go into computing them anew. If some wait, those that go on have theirs.
TEST(Level, AGatewayThatHoldsRequestsKeepsCachesThatAreTooSmallForAll) {
  spec::SweepSpec sweep = beyond_memory();
  const auto cached_share = [&](bool holds, RoutingMode mode) {
    sweep.deployment.gateway.hold.enabled = holds;
    const LevelRun run = run_level(sweep, {.mode = mode, .concurrency = 40, .seed = 5});
    std::uint64_t cached = 0;
    std::uint64_t prompts = 0;
    for (const workload::TurnSample& turn : run.turns) {
      EXPECT_NE(turn.outcome, TurnOutcome::kFailed) << turn.error;
      cached += turn.cached_tokens;
      prompts += turn.prompt_tokens;
    }
    return std::pair(run.turns.size(), static_cast<double>(cached) / static_cast<double>(prompts));
  };
  const auto [turns, share] = cached_share(false, RoutingMode::kKv);
  const auto [held_turns, held_share] = cached_share(true, RoutingMode::kKv);
  EXPECT_GT(10 * held_turns, 13 * turns);
  EXPECT_GT(held_share, share + 0.3);
  EXPECT_EQ(cached_share(true, RoutingMode::kRoundRobin), cached_share(false, RoutingMode::kRoundRobin))
      << "the other modes do what is published of them";
}

TEST(Level, WhatIsHeldUntilItsTimeIsOverIsToldAtOnceAndNeverBegins) {
  spec::SweepSpec sweep = beyond_memory();
  sweep.deployment.gateway.hold.enabled = true;
  sweep.deployment.gateway.upstream_timeout = std::chrono::seconds(20);
  const LevelRun run = run_level(sweep, {.mode = RoutingMode::kKv, .concurrency = 40, .seed = 5});
  std::size_t without_worker = 0;
  for (const workload::TurnSample& turn : run.turns) {
    EXPECT_LE(turn.ended - turn.sent, std::chrono::milliseconds(20'200)) << turn.error;
    if (!turn.error.contains("no worker had room for the request in time")) continue;
    EXPECT_TRUE(turn.worker.empty());
    ++without_worker;
  }
  EXPECT_GT(without_worker, 0U);
}

/// Levels of one load, each as a separate run.
std::vector<LevelRun> run_levels(const spec::SweepSpec& sweep, const std::vector<LevelPlan>& levels) {
  std::vector<LevelRun> runs(levels.size());
  Result<std::vector<LevelOutcome>> outcomes =
      simulate_levels(sweep, levels, [&](std::size_t level, std::vector<workload::TurnSample> turns) -> Result<void> {
        for (workload::TurnSample& turn : turns) runs[level].turns.push_back(std::move(turn));
        return {};
      });
  EXPECT_TRUE(outcomes) << outcomes.error().message;
  if (!outcomes) return {};
  for (std::size_t i = 0; i < levels.size(); ++i) runs[i].outcome = std::move((*outcomes)[i]);
  return runs;
}

std::vector<LevelPlan> plans(std::vector<std::uint32_t> levels) {
  std::vector<LevelPlan> plans;
  for (const std::uint32_t level : levels) {
    plans.push_back({.mode = RoutingMode::kKv, .concurrency = level, .seed = 5});
  }
  return plans;
}

TEST(Levels, OfOneLoadTheFirstIsAsIfItWereAlone) {
  const spec::SweepSpec sweep = small_sweep();
  const LevelRun alone = run_level(sweep, plans({8})[0]);
  const LevelRun first = run_levels(sweep, plans({8, 12}))[0];
  EXPECT_EQ(first.outcome.snapshots.back().latency_p95_ms, alone.outcome.snapshots.back().latency_p95_ms);
  EXPECT_EQ(first.outcome.ended, first.outcome.measure_to) << "nothing drains";
  std::vector<LevelPlan> on_two_threads = plans({8, 12});
  for (LevelPlan& plan : on_two_threads) plan.second_thread = true;
  EXPECT_EQ(in_words(run_levels(sweep, on_two_threads)[1]), in_words(run_levels(sweep, plans({8, 12}))[1]));
  // The same turns begin; later conditions differ.
  const auto is_of_the_level = [&](const workload::TurnSample& t) { return t.sent < alone.outcome.measure_to; };
  EXPECT_EQ(std::ranges::count_if(alone.turns, is_of_the_level), static_cast<std::ptrdiff_t>(first.turns.size()));
  EXPECT_EQ(in_words(run_levels(sweep, plans({8}))[0]), in_words(alone)) << "one level of a load is a level";
}

TEST(Levels, OfOneLoadFollowEachOtherWithoutAGap) {
  const spec::SweepSpec sweep = small_sweep();
  const std::vector<LevelPlan> levels = plans({4, 9, 15});
  const std::vector<LevelRun> runs = run_levels(sweep, levels);
  ASSERT_EQ(runs.size(), 3U);
  std::uint64_t tokens = 0;
  std::uint64_t received = 0;
  std::map<std::string, std::uint64_t> generated;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const LevelOutcome& outcome = runs[i].outcome;
    EXPECT_EQ(outcome.started, TimePoint(std::chrono::seconds(12) * static_cast<int>(i)));
    EXPECT_EQ(outcome.measure_from, outcome.started + sweep.method.warmup);
    EXPECT_EQ(outcome.measure_to, outcome.started + std::chrono::seconds(12));
    ASSERT_EQ(outcome.snapshots.size(), 2U);
    EXPECT_EQ(outcome.snapshots.back().in_flight, levels[i].concurrency);
    for (const workload::TurnSample& turn : runs[i].turns) {
      EXPECT_GE(turn.sent, outcome.started);
      if (i + 1 < runs.size()) {
        EXPECT_LT(turn.sent, runs[i + 1].outcome.started);
      }
      tokens += turn.completion_tokens;
    }
    received += outcome.output_tokens;
    for (const WorkerOutcome& worker : outcome.workers) {
      EXPECT_EQ(worker.before.generated_tokens, generated[worker.name]) << "a level begins where the last one ended";
      generated[worker.name] = worker.total.generated_tokens;
    }
  }
  std::uint64_t by_workers = 0;
  for (const auto& [name, count] : generated) by_workers += count;
  EXPECT_EQ(tokens, by_workers);
  EXPECT_EQ(tokens, received);
  EXPECT_GT(runs[2].turns.size(), runs[0].turns.size());
}

TEST(Levels, OfOneLoadAreTheSameEachTime) {
  spec::SweepSpec sweep = small_sweep();
  sweep.simulation.timeline_period = std::chrono::seconds(1);
  const std::vector<LevelRun> once = run_levels(sweep, plans({4, 9, 15}));
  const std::vector<LevelRun> again = run_levels(sweep, plans({4, 9, 15}));
  for (std::size_t i = 0; i < once.size(); ++i) EXPECT_EQ(in_words(once[i]), in_words(again[i]));
}

TEST(Levels, OnlyANumberOfConversationsCanBeRaised) {
  const std::vector<LevelPlan> falling = plans({9, 4});
  const auto sink = [](std::size_t, const std::vector<workload::TurnSample>&) -> Result<void> { return {}; };
  EXPECT_EQ(simulate_levels(small_sweep(), falling, sink).error().code, ErrorCode::kInvalidArgument);
}

TEST(Level, EveryModeDrivesTheSameConversations) {
  using Key = std::pair<ConversationId, std::uint32_t>;
  const spec::SweepSpec sweep = small_sweep();
  std::map<Key, std::pair<std::uint32_t, std::uint32_t>> lengths;
  std::size_t compared = 0;
  for (const RoutingMode mode : {RoutingMode::kRoundRobin, RoutingMode::kKv, RoutingMode::kLeastLoaded}) {
    for (const workload::TurnSample& turn : run_level(sweep, {.mode = mode, .concurrency = 9, .seed = 3}).turns) {
      const std::pair both(turn.prompt_tokens, turn.completion_tokens);
      const auto [known, is_new] = lengths.try_emplace(Key(turn.conversation, turn.turn), both);
      EXPECT_EQ(known->second, both) << turn.conversation.value() << "." << turn.turn;
      compared += is_new ? 0 : 1;
    }
  }
  EXPECT_GT(compared, 300U);
}

TEST(Level, ReadsWorkersAndSnapshotsInTime) {
  spec::SweepSpec sweep = small_sweep();
  sweep.simulation.timeline_period = std::chrono::milliseconds(500);
  const LevelRun run = run_level(sweep, {.mode = RoutingMode::kRoundRobin, .concurrency = 30, .seed = 1});
  EXPECT_EQ(run.outcome.measure_from, TimePoint(std::chrono::seconds(2)));
  EXPECT_EQ(run.outcome.measure_to, TimePoint(std::chrono::seconds(12)));
  ASSERT_EQ(run.outcome.snapshots.size(), 2U);
  EXPECT_EQ(run.outcome.snapshots[0].at, TimePoint(std::chrono::seconds(7)));
  EXPECT_EQ(run.outcome.snapshots[1].at, TimePoint(std::chrono::seconds(12)));
  EXPECT_EQ(run.outcome.snapshots[1].in_flight, 30U);
  EXPECT_GE(run.outcome.ended, run.outcome.measure_to);
  for (const WorkerOutcome& worker : run.outcome.workers) {
    EXPECT_EQ(worker.at_snapshots.size(), 2U);
    ASSERT_GT(worker.timeline.size(), 24U);
    for (std::size_t i = 0; i < worker.timeline.size(); ++i) {
      const WorkerReading& reading = worker.timeline[i];
      EXPECT_EQ(reading.at, TimePoint(i * sweep.simulation.timeline_period));
      EXPECT_LE(reading.running, 4U);
      EXPECT_LE(reading.kv_blocks_used, 400U);
    }
    // Busy all the time: the longest step of half a second is at least one decode step, at most a full prefill.
    EXPECT_GT(worker.timeline[10].step_ms, 21.0F);
    EXPECT_LT(worker.timeline[10].step_ms, 50.0F);
    EXPECT_EQ(worker.timeline[10].running, 4U);
  }
}

TEST(Level, HandsTurnsOnInTheOrderOfTheirEnd) {
  const LevelRun run = run_level(small_sweep(5), {.mode = RoutingMode::kKv, .concurrency = 30, .seed = 1});
  EXPECT_TRUE(std::ranges::is_sorted(run.turns, {}, &workload::TurnSample::ended));
  EXPECT_GT(run.turns.size(), 256U) << "more than one batch";
}

TEST(Level, LeavesGapsOutWhereTheyAreNotWanted) {
  spec::SweepSpec sweep = small_sweep();
  const LevelPlan level{.mode = RoutingMode::kKv, .concurrency = 6, .seed = 1};
  const LevelRun with = run_level(sweep, level);
  sweep.simulation.keep_token_gaps = false;
  const LevelRun without = run_level(sweep, level);
  ASSERT_EQ(with.turns.size(), without.turns.size());
  for (std::size_t i = 0; i < with.turns.size(); ++i) {
    EXPECT_EQ(with.turns[i].gaps_ms.size() + 1, with.turns[i].chunks);
    EXPECT_TRUE(without.turns[i].gaps_ms.empty());
    EXPECT_EQ(with.turns[i].ended, without.turns[i].ended);
  }
  EXPECT_EQ(with.outcome.snapshots[0].itl_p95_ms, without.outcome.snapshots[0].itl_p95_ms);
}

TEST(Level, AClientGivesUpAndTheEngineIsFree) {
  spec::SweepSpec sweep = small_sweep(1);
  sweep.workload.request_timeout = std::chrono::seconds(2);
  const LevelRun run = run_level(sweep, {.mode = RoutingMode::kRoundRobin, .concurrency = 20, .seed = 1});
  std::uint64_t given_up = 0;
  for (const workload::TurnSample& turn : run.turns) {
    if (turn.outcome != TurnOutcome::kFailed) continue;
    ++given_up;
    EXPECT_EQ(turn.ended - turn.sent, std::chrono::seconds(2));
    EXPECT_EQ(turn.error, "no whole answer within 2 s");
  }
  EXPECT_GT(given_up, 20U);
  EXPECT_EQ(run.outcome.workers[0].total.aborted, given_up);  // each freed its blocks: the invariants check that
}

TEST(Level, WhatTheDrainDoesNotEndIsBrokenOff) {
  spec::SweepSpec sweep = small_sweep();
  sweep.method.drain_timeout = std::chrono::milliseconds(100);
  const LevelRun run = run_level(sweep, {.mode = RoutingMode::kKv, .concurrency = 15, .seed = 1});
  const auto abandoned = std::ranges::count(run.turns, TurnOutcome::kAbandoned, &workload::TurnSample::outcome);
  EXPECT_GT(abandoned, 5);
  ASSERT_EQ(run.outcome.remarks.size(), 1U);
  EXPECT_EQ(run.outcome.remarks[0],
            fmt::format("{} turns had not ended 0.1 s after the last snapshot and were broken off", abandoned));
  // Nothing is left after one delay to the gateway and one to the worker.
  EXPECT_LT(run.outcome.ended - run.outcome.measure_to, std::chrono::milliseconds(200));
}

TEST(Level, AFullWorkerPushesBackAndAnotherTakesOver) {
  spec::SweepSpec sweep = small_sweep(2);
  for (spec::WorkerSpec& worker : sweep.deployment.workers) worker.max_waiting = 2;
  sweep.workload.target_rps = 200;  // faster than both queues can absorb
  const LevelRun run = run_level(sweep, {.mode = RoutingMode::kKv, .concurrency = 30, .seed = 1});
  EXPECT_TRUE(std::ranges::any_of(
      run.turns, [](const workload::TurnSample& turn) { return turn.error.starts_with("resource_exhausted: "); }));
  EXPECT_TRUE(std::ranges::any_of(
      run.turns, [](const workload::TurnSample& turn) { return turn.outcome == TurnOutcome::kSucceeded; }));
}

TEST(Level, AGatewayTimeOutBreaksTheStream) {
  spec::SweepSpec sweep = small_sweep();
  sweep.deployment.gateway.upstream_timeout = std::chrono::milliseconds(900);
  const LevelRun run = run_level(sweep, {.mode = RoutingMode::kRoundRobin, .concurrency = 12, .seed = 1});
  EXPECT_TRUE(std::ranges::any_of(run.turns, [](const workload::TurnSample& turn) {
    return turn.error == "deadline_exceeded: the answer took longer than a request may" && turn.chunks > 0;
  }));
}

TEST(Level, ASinkThatFailsEndsTheRun) {
  const auto outcome =
      simulate_level(small_sweep(), {.mode = RoutingMode::kKv, .concurrency = 12, .seed = 1},
                     [](const auto&) -> Result<void> { return fail(ErrorCode::kInternal, "the disk is full"); });
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().message, "the disk is full");
}

TEST(Level, OpenArrivalsComeWhateverIsInFlight) {
  spec::SweepSpec sweep = small_sweep();
  sweep.workload.arrivals = {.kind = spec::ArrivalKind::kBursty, .variation = 2, .max_conversations = 500};
  const LevelPlan kv{.mode = RoutingMode::kKv, .concurrency = 120, .seed = 4};
  const LevelPlan rr{.mode = RoutingMode::kRoundRobin, .concurrency = 120, .seed = 4};
  const auto starts = [](const LevelRun& run) {
    std::map<std::uint64_t, TimePoint> begun;
    for (const auto& turn : run.turns) {
      if (turn.turn == 0) begun[turn.conversation.value()] = turn.intended;
    }
    return begun;
  };
  const LevelRun first = run_level(sweep, kv);
  EXPECT_EQ(in_words(first), in_words(run_level(sweep, kv)));
  EXPECT_GT(starts(first).size(), 5U);
  EXPECT_EQ(starts(first), starts(run_level(sweep, rr))) << "both modes get the same arrivals";
  EXPECT_TRUE(first.outcome.remarks.empty());
}

TEST(Level, ArrivalsThatFindNoPlaceAreSentLateOrRefusedAndARemarkSaysSo) {
  spec::SweepSpec sweep = small_sweep();
  sweep.workload.arrivals = {.kind = spec::ArrivalKind::kPoisson, .variation = 2, .max_conversations = 2};
  const LevelPlan plan{.mode = RoutingMode::kKv, .concurrency = 6'000, .seed = 4};
  const LevelRun waiting = run_level(sweep, plan);
  ASSERT_EQ(waiting.outcome.remarks.size(), 1U);
  EXPECT_NE(waiting.outcome.remarks[0].find("arrivals waited for a place and were sent late: 2 conversations"),
            std::string::npos);
  std::set<std::uint64_t> begun;
  for (const auto& turn : waiting.turns) {
    EXPECT_GE(turn.sent, turn.intended);
    begun.insert(turn.conversation.value());
  }
  EXPECT_EQ(*begun.rbegin() + 1, begun.size()) << "none is left out";

  sweep.workload.arrivals.when_full = spec::WhenFull::kRefuse;
  const LevelRun refusing = run_level(sweep, plan);
  ASSERT_EQ(refusing.outcome.remarks.size(), 1U);
  EXPECT_NE(refusing.outcome.remarks[0].find("arrivals were refused: 2 conversations were alive"), std::string::npos);
}

TEST(Level, RefusesAWorkloadThatCannotBeDriven) {
  spec::SweepSpec sweep = small_sweep();
  const TurnSink sink = [](const auto&) -> Result<void> { return {}; };
  EXPECT_FALSE(simulate_level(sweep, {.mode = RoutingMode::kKv, .concurrency = 0, .seed = 1}, sink));
  sweep.workload.max_tokens = 0;
  EXPECT_FALSE(simulate_level(sweep, {.mode = RoutingMode::kKv, .concurrency = 1, .seed = 1}, sink));
}

}  // namespace
}  // namespace kvist::simulation::level_test

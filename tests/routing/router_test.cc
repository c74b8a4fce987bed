#include "kvist/routing/router.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace kvist::routing::router_test {
namespace {

constexpr std::uint32_t kBlockSize = 4;

class RouterTest : public ::testing::Test {
 protected:
  static Router make(spec::RoutingMode mode, std::size_t workers = 3) {
    return Router({.model = "m", .block_size = kBlockSize, .workers = workers, .mode = mode, .seed = 5});
  }

  static std::vector<TokenId> tokens(std::uint32_t count) {
    std::vector<TokenId> result;
    for (std::uint32_t i = 0; i < count; ++i) result.emplace_back(i);
    return result;
  }

  static RouteQuery query(std::uint64_t id, std::uint32_t prompt_tokens, std::vector<WorkerId> excluded = {}) {
    const auto root = kv::root_hash({.model = "m", .lora = "", .cache_salt = ""});
    return {.request = RequestId(id),
            .prompt_tokens = prompt_tokens,
            .blocks = std::make_shared<const std::vector<kv::BlockHash>>(
                kv::hash_blocks(root, tokens(prompt_tokens), kBlockSize)),
            .excluded = std::move(excluded)};
  }

  static kv::KvEvent stored(std::uint32_t blocks) {
    kv::BlockStored event;
    event.block_size = kBlockSize;
    event.tokens = tokens(blocks * kBlockSize);
    for (std::uint64_t i = 1; i <= blocks; ++i) event.hashes.emplace_back(i);
    return event;
  }

  std::vector<WorkerView> fleet_{3, WorkerView{.available = true, .limits = {}}};
  TimePoint now_;
};

TEST_F(RouterTest, PredictsWhatTheWorkerHasCached) {
  Router router = make(spec::RoutingMode::kDynamo);
  const std::vector<kv::KvEvent> events{stored(3)};
  EXPECT_EQ(router.on_kv_events(WorkerId(2), events), 0U);
  const auto decision = router.route(query(1, 18), fleet_, now_);
  ASSERT_TRUE(decision);
  EXPECT_EQ(decision->worker, WorkerId(2));
  EXPECT_EQ(decision->predicted_cached_tokens, 12U);
  EXPECT_EQ(decision->mode, spec::RoutingMode::kDynamo);
  ASSERT_EQ(router.log().newest(0).candidates.size(), 3U);
  EXPECT_EQ(router.log().newest(0).candidates[2].cached_blocks, 3U);
  EXPECT_EQ(router.log().newest(0).candidates[0].cached_blocks, 0U);
  EXPECT_EQ(router.log().newest(0).candidates[0].new_blocks, 4U);
  EXPECT_DOUBLE_EQ(router.log().newest(0).candidates[0].cost, 4.5 + 4);
  EXPECT_DOUBLE_EQ(router.log().newest(0).candidates[2].cost, 1.5 + 4);
  EXPECT_EQ(router.loads().load(WorkerId(2)).prefill_tokens, 6U);
}

// One worker has a prefix of which few of all prompts begin, but so many that a second copy pays.
TEST_F(RouterTest, APrefixOfManyPromptsInFlightShouldHaveAFurtherCopy) {
  Router router = make(spec::RoutingMode::kKv);
  for (WorkerView& worker : fleet_) worker.events_exact = true;
  std::uint64_t id = 0;
  const auto wanted_at = [&](std::size_t worker) {
    const auto decision = router.route(query(++id, 17), fleet_, now_);
    router.on_finished(decision->request, false, now_);
    return router.log().newest(0).candidates[worker].replicate_tokens;
  };
  for (int i = 0; i < 300; ++i) {
    RouteQuery other = query(++id, 16);
    other.blocks = std::make_shared<const std::vector<kv::BlockHash>>(kv::hash_blocks(
        kv::root_hash({.model = "m", .lora = std::to_string(i), .cache_salt = ""}), tokens(16), kBlockSize));
    ASSERT_TRUE(router.route(other, fleet_, now_));
  }
  for (int i = 0; i < 63; ++i) ASSERT_TRUE(router.route(query(++id, 17, {WorkerId(1), WorkerId(2)}), fleet_, now_));
  EXPECT_EQ(wanted_at(1), 0U);
  ASSERT_TRUE(router.route(query(++id, 17, {WorkerId(1), WorkerId(2)}), fleet_, now_));
  EXPECT_EQ(wanted_at(0), 0U) << "it has one";
  EXPECT_EQ(wanted_at(1), 16U);
  EXPECT_EQ(wanted_at(2), 16U) << "either may get it";
}

// Half of all prompts begin alike, and one worker of three has that prefix. While nobody waits, that is its share.
TEST_F(RouterTest, AHotPrefixHasTheMoreCopiesTheMoreWait) {
  for (WorkerView& worker : fleet_) worker.events_exact = true;
  const auto wanted_elsewhere = [&](bool they_wait) {
    Router router = make(spec::RoutingMode::kKv);
    router.on_kv_events(WorkerId(0), std::vector<kv::KvEvent>{stored(4)});
    std::uint64_t id = 0;
    for (std::uint32_t i = 0; i < 60; ++i) {
      RouteQuery next = query(++id, 17, {WorkerId(1), WorkerId(2)});
      if (i % 2 == 0) {
        next = query(id, 16);
        next.blocks = std::make_shared<const std::vector<kv::BlockHash>>(kv::hash_blocks(
            kv::root_hash({.model = "m", .lora = std::to_string(i), .cache_salt = ""}), tokens(16), kBlockSize));
      }
      const auto decision = router.route(next, fleet_, now_);
      if (!they_wait) router.on_first_token(decision->request, now_);
    }
    (void)router.route(query(++id, 17), fleet_, now_);
    return router.log().newest(0).candidates[1].replicate_tokens;
  };
  EXPECT_EQ(wanted_elsewhere(false), 0U);
  EXPECT_EQ(wanted_elsewhere(true), 16U);
}

TEST_F(RouterTest, APromptThatDisplacesReusedPrefixesIsForecastToDoSo) {
  Router router({.model = "m",
                 .block_size = kBlockSize,
                 .workers = 3,
                 .mode = spec::RoutingMode::kKv,
                 .latency_prior = {.per_prefill_token = std::chrono::milliseconds(1)}});
  for (WorkerView& worker : fleet_) {
    worker.limits = {.block_size = kBlockSize, .kv_blocks = 6};
    worker.events_exact = true;
  }
  const auto serve = [&](const RouteQuery& query) {
    const auto decision = router.route(query, fleet_, now_);
    router.on_finished(decision->request, true, now_);  // nothing is learned of the worker's speed
    return decision->worker;
  };
  RouteQuery other = query(9, 16);
  other.blocks = std::make_shared<const std::vector<kv::BlockHash>>(
      kv::hash_blocks(kv::root_hash({.model = "m", .lora = "other", .cache_salt = ""}), tokens(16), kBlockSize));
  const auto displaced_at = [&](WorkerId worker) {
    serve(other);
    return router.log().newest(0).candidates[worker.value()].forecast.displaced_ms;
  };
  const WorkerId home = serve(query(1, 16));
  EXPECT_DOUBLE_EQ(displaced_at(home), 0) << "nothing came back to it yet";
  const std::vector<kv::KvEvent> events{stored(4)};
  router.on_kv_events(home, events);
  const auto rejected = router.route(query(2, 16), fleet_, now_);
  EXPECT_EQ(rejected->worker, home);
  router.on_finished(rejected->request, false, now_);
  EXPECT_DOUBLE_EQ(displaced_at(home), 0) << "the worker never got it";
  EXPECT_EQ(serve(query(3, 16)), home);
  EXPECT_NEAR(displaced_at(home), 2 * kBlockSize, 0.05) << "four blocks of six, and four more: 1 ms for each token";
  router.on_worker_restarted(home);
  EXPECT_DOUBLE_EQ(displaced_at(home), 0) << "its cache is empty";
}

// Of six blocks four are reused prefixes, and an answer under way takes the other two as it grows: then there is no
// room for a further prompt.
TEST_F(RouterTest, AnswersUnderWayTakeTheRoomOfReusedPrefixes) {
  Router router({.model = "m",
                 .block_size = kBlockSize,
                 .workers = 3,
                 .mode = spec::RoutingMode::kKv,
                 .latency_prior = {.per_prefill_token = std::chrono::milliseconds(1)}});
  for (WorkerView& worker : fleet_) {
    worker.limits = {.block_size = kBlockSize, .kv_blocks = 6};
    worker.available = worker.events_exact = true;
  }
  fleet_[1].available = fleet_[2].available = false;
  const std::vector<kv::KvEvent> events{stored(4)};
  router.on_kv_events(WorkerId(0), events);
  const auto first = router.route(query(1, 16), fleet_, now_);
  router.on_first_token(first->request, now_);
  RouteQuery other = query(2, kBlockSize);
  other.blocks = std::make_shared<const std::vector<kv::BlockHash>>(kv::hash_blocks(
      kv::root_hash({.model = "m", .lora = "other", .cache_salt = ""}), tokens(kBlockSize), kBlockSize));
  const auto displaced_ms = [&] {
    const auto routed = router.route(other, fleet_, now_);
    router.on_finished(routed->request, false, now_);
    return router.log().newest(0).candidates.front().forecast.displaced_ms;
  };
  EXPECT_DOUBLE_EQ(displaced_ms(), 0);
  router.on_progress(first->request, kBlockSize, now_);
  EXPECT_DOUBLE_EQ(displaced_ms(), 0);
  router.on_progress(first->request, kBlockSize, now_);
  EXPECT_GT(displaced_ms(), 0);
  router.on_finished(first->request, true, now_);
  EXPECT_DOUBLE_EQ(displaced_ms(), 0);
}

// Of six blocks four are taken by a prompt in flight that nobody came back to: another one of four has to wait for
// memory, but there is no prefix that it displaces.
TEST_F(RouterTest, WhatIsInFlightIsNotDisplaced) {
  Router router = make(spec::RoutingMode::kKv);
  for (WorkerView& worker : fleet_) worker.limits = {.block_size = kBlockSize, .kv_blocks = 6};
  fleet_[1].available = fleet_[2].available = false;
  ASSERT_TRUE(router.route(query(1, 16), fleet_, now_));
  RouteQuery other = query(2, 16);
  other.blocks = std::make_shared<const std::vector<kv::BlockHash>>(
      kv::hash_blocks(kv::root_hash({.model = "m", .lora = "other", .cache_salt = ""}), tokens(16), kBlockSize));
  ASSERT_TRUE(router.route(other, fleet_, now_));
  const Forecast& forecast = router.log().newest(0).candidates.front().forecast;
  EXPECT_DOUBLE_EQ(forecast.displaced_ms, 0);
  EXPECT_FALSE(forecast.has_slot);
}

TEST_F(RouterTest, KvMemoryIsCountedInBlocksOfTheRoutersSize) {
  Router router = make(spec::RoutingMode::kKv);
  fleet_[0].limits = {.block_size = kBlockSize, .kv_blocks = 600};
  fleet_[1].limits = {.block_size = kBlockSize / 2, .kv_blocks = 600};
  fleet_[2].limits = {.kv_blocks = 600};
  ASSERT_TRUE(router.route(query(1, 18), fleet_, now_));
  const auto& candidates = router.log().newest(0).candidates;
  EXPECT_EQ(candidates[0].limits.kv_blocks, 600U);
  EXPECT_EQ(candidates[1].limits.kv_blocks, 300U);
  EXPECT_EQ(candidates[1].limits.block_size, kBlockSize);
  EXPECT_EQ(candidates[2].limits.kv_blocks, 600U) << "its block size is not known";
}

TEST_F(RouterTest, AnyKnownKvMemoryStaysKnown) {
  Router router = make(spec::RoutingMode::kKv);
  fleet_[0].limits = {.block_size = 1, .kv_blocks = kBlockSize - 1};
  fleet_[1].limits = {.block_size = 4 * kBlockSize, .kv_blocks = 1U << 30};
  fleet_[2].limits = {.block_size = 1, .kv_blocks = 0};
  ASSERT_TRUE(router.route(query(1, 18), fleet_, now_));
  const auto& candidates = router.log().newest(0).candidates;
  EXPECT_EQ(candidates[0].limits.kv_blocks, 1U);
  EXPECT_EQ(candidates[1].limits.kv_blocks, UINT32_MAX);
  EXPECT_EQ(candidates[2].limits.kv_blocks, 0U);
}

TEST_F(RouterTest, TheLastBlockOfAWhollyCachedPromptIsComputedAgain) {
  Router router = make(spec::RoutingMode::kDynamo);
  const std::vector<kv::KvEvent> events{stored(3)};
  (void)router.on_kv_events(WorkerId(0), events);
  const auto decision = router.route(query(1, 12), fleet_, now_);
  ASSERT_TRUE(decision);
  EXPECT_EQ(decision->predicted_cached_tokens, 8U);
  EXPECT_EQ(router.log().newest(0).candidates[0].cached_blocks, 3U);
}

// Worker 1 tokenizes the prompt differently from the rest.
TEST_F(RouterTest, LooksUpAPromptAsEachWorkerReadsIt) {
  Router router = make(spec::RoutingMode::kDynamo);
  const auto root = kv::root_hash({.model = "m", .lora = "", .cache_salt = ""});
  std::vector<TokenId> other_tokens;
  for (std::uint32_t i = 0; i < 22; ++i) other_tokens.emplace_back(100 + i);
  kv::BlockStored other;
  other.block_size = kBlockSize;
  other.tokens.assign(other_tokens.begin(), other_tokens.begin() + 20);
  for (std::uint64_t i = 1; i <= 5; ++i) other.hashes.emplace_back(i);
  // Both workers have parts of both prompts; only the worker's own tokenization counts.
  EXPECT_EQ(router.on_kv_events(WorkerId(0), std::vector<kv::KvEvent>{other}), 0U);
  EXPECT_EQ(router.on_kv_events(WorkerId(1), std::vector<kv::KvEvent>{other}), 0U);
  EXPECT_EQ(router.on_kv_events(WorkerId(2), std::vector<kv::KvEvent>{stored(2)}), 0U);
  for (WorkerView& worker : fleet_) worker.events_exact = true;
  fleet_[1].reading = 1;
  RouteQuery both = query(1, 18);
  both.otherwise.push_back(
      {.reading = 1,
       .prompt_tokens = 22,
       .blocks = std::make_shared<const std::vector<kv::BlockHash>>(kv::hash_blocks(root, other_tokens, kBlockSize))});
  const auto decision = router.route(both, fleet_, now_);
  ASSERT_TRUE(decision);
  EXPECT_EQ(decision->worker, WorkerId(1));
  EXPECT_EQ(decision->predicted_cached_tokens, 20U);
  const auto& candidates = router.log().newest(0).candidates;
  EXPECT_EQ(candidates[0].cached_blocks, 0U);
  EXPECT_EQ(candidates[1].cached_blocks, 5U);
  EXPECT_EQ(candidates[2].cached_blocks, 2U);
  EXPECT_EQ(candidates[1].new_blocks, 5U);
  EXPECT_EQ(candidates[2].new_blocks, 4U);
  EXPECT_EQ(router.loads().load(WorkerId(1)).prefill_tokens, 2U);
  EXPECT_EQ(router.loads().load(WorkerId(1)).prompt_blocks, 5U) << "booked under its own names";
  // Its answer is compared with the expectation for its own reading, not for another one.
  router.on_usage(decision->request, 22, 20);
  EXPECT_EQ(router.caches().report(WorkerId(1), true).events_share, 1);
}

TEST_F(RouterTest, ARequestThatReadsNoCacheFindsNone) {
  Router router = make(spec::RoutingMode::kKv);
  EXPECT_EQ(router.on_kv_events(WorkerId(2), std::vector<kv::KvEvent>{stored(3)}), 0U);
  for (WorkerView& worker : fleet_) worker.events_exact = true;
  RouteQuery whole = query(1, 18);
  whole.reads_cache = false;
  const auto decision = router.route(whole, fleet_, now_);
  ASSERT_TRUE(decision);
  EXPECT_EQ(decision->predicted_cached_tokens, 0U);
  for (const Candidate& candidate : router.log().newest(0).candidates) {
    EXPECT_EQ(candidate.cached_blocks, 0U);
    EXPECT_EQ(candidate.new_blocks, 4U);
  }
  // Nothing was expected, so that a 0 in the answer is no contradiction.
  router.on_first_token(decision->request, now_);
  router.on_usage(decision->request, 18, 0);
  EXPECT_EQ(router.caches().report(decision->worker, true).corrections, 0U);
  // Its blocks are cached nevertheless, so the next request finds them there.
  const auto next = router.route(query(2, 18), fleet_, now_);
  ASSERT_TRUE(next);
  EXPECT_EQ(router.log().newest(0).candidates[decision->worker.value()].cached_blocks, 4U);
}

TEST_F(RouterTest, OnlyAvailableAndNotExcludedWorkersAreCandidates) {
  Router router = make(spec::RoutingMode::kRoundRobin);
  fleet_[0].available = false;
  const auto decision = router.route(query(1, 10, {WorkerId(1)}), fleet_, now_);
  ASSERT_TRUE(decision);
  EXPECT_EQ(decision->worker, WorkerId(2));
  EXPECT_EQ(router.log().newest(0).candidates.size(), 1U);
  const auto none = router.route(query(2, 10, {WorkerId(1), WorkerId(2)}), fleet_, now_);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(router.loads().requests(), 1U);
}

TEST_F(RouterTest, ARequestForAnAdapterGoesToWorkersThatHaveIt) {
  Router router = make(spec::RoutingMode::kRoundRobin);
  for (WorkerView& worker : fleet_) worker.group = 0;
  fleet_[1].adapters = {"alpha", "beta"};
  fleet_[2].adapters = {"beta"};
  const auto ask = [&](std::uint64_t id, const char* adapter, std::vector<WorkerId> excluded = {}) {
    RouteQuery asked = query(id, 10, std::move(excluded));
    asked.adapter = adapter;
    return router.route(asked, fleet_, now_);
  };
  EXPECT_EQ(ask(1, "alpha")->worker, WorkerId(1));
  EXPECT_EQ(router.log().newest(0).candidates.size(), 1U);
  EXPECT_EQ(router.log().newest(0).adapter, "alpha");
  EXPECT_TRUE(ask(2, "beta"));
  EXPECT_EQ(router.log().newest(0).candidates.size(), 2U);
  EXPECT_TRUE(ask(3, ""));
  EXPECT_EQ(router.log().newest(0).candidates.size(), 3U);
  EXPECT_EQ(router.log().newest(0).adapter, "") << "nothing of an earlier record in its place";
  const auto unknown = ask(4, "gamma");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(unknown.error().message, "none of the 0 workers that have the adapter \"gamma\" can take the request now");
  EXPECT_FALSE(ask(5, "alpha", {WorkerId(1)}));
}

TEST_F(RouterTest, TheOnlyWorkerWithAnAdapterIsUsedWhileOthersAreHealthier) {
  Router router = make(spec::RoutingMode::kRoundRobin);
  fleet_[0].group = fleet_[1].group = 0;
  fleet_[2] = {.available = false, .group = 1, .adapters = {"alpha"}};
  RouteQuery asked = query(1, 10);
  asked.adapter = "alpha";
  EXPECT_EQ(router.route(asked, fleet_, now_)->worker, WorkerId(2)) << "suspect, and the only one";
  fleet_[1].adapters = {"alpha"};
  EXPECT_EQ(router.route(asked, fleet_, now_)->worker, WorkerId(1));
  fleet_[1].group = fleet_[2].group = WorkerView::kOutOfUse;
  EXPECT_FALSE(router.route(asked, fleet_, now_));
}

TEST_F(RouterTest, APromptGoesToWorkersWhoseContextHoldsIt) {
  Router router = make(spec::RoutingMode::kRoundRobin);
  fleet_[0].max_model_len = 10;
  fleet_[1].max_model_len = 20;
  const auto candidates = [&](std::uint64_t id, std::uint32_t prompt_tokens) {
    EXPECT_TRUE(router.route(query(id, prompt_tokens), fleet_, now_));
    return router.log().newest(0).candidates.size();
  };
  EXPECT_EQ(candidates(1, 9), 3U);
  EXPECT_EQ(candidates(2, 10), 2U) << "at least one token of an answer has to fit too";
  EXPECT_EQ(candidates(3, 20), 1U) << "a worker that reports no length may take anything";
  fleet_[2].available = false;
  EXPECT_EQ(candidates(4, 20), 2U) << "if it fits nowhere, a worker says so";
}

TEST_F(RouterTest, AnEndedRequestLeavesNoLoad) {
  Router router = make(spec::RoutingMode::kLeastLoaded);
  std::vector<RequestHandle> requests;
  for (std::uint64_t id = 1; id <= 9; ++id) {
    const auto decision = router.route(query(id, 40), fleet_, now_);
    ASSERT_TRUE(decision);
    requests.push_back(decision->request);
  }
  for (std::uint64_t id = 1; id <= 9; ++id) {
    if (id % 3 != 0) router.on_first_token(requests[id - 1], TimePoint{});
    router.on_progress(requests[id - 1], id, TimePoint{});
    router.on_finished(requests[id - 1], true, TimePoint{});
    router.on_finished(requests[id - 1], true, TimePoint{});
  }
  for (std::uint32_t w = 0; w < 3; ++w) EXPECT_EQ(router.loads().load(WorkerId(w)), WorkerLoad{});
  EXPECT_EQ(router.loads().requests(), 0U);
}

// Whole answers without usage, and completions of several prompts, tell of nothing but their end.
TEST_F(RouterTest, WhatACompletedRequestComputedStaysPredicted) {
  for (const bool completed : {true, false}) {
    SCOPED_TRACE(completed);
    Router router = make(spec::RoutingMode::kKv);
    const auto decision = router.route(query(1, 18), fleet_, now_);
    ASSERT_TRUE(decision);
    router.on_finished(decision->request, completed, now_);
    ASSERT_TRUE(router.route(query(2, 18), fleet_, now_));
    EXPECT_EQ(router.log().newest(0).candidates[decision->worker.value()].cached_blocks, completed ? 4U : 0U);
  }
}

TEST_F(RouterTest, AFinishedRequestCanBeRoutedAgainElsewhere) {
  Router router = make(spec::RoutingMode::kRoundRobin);
  const auto first = router.route(query(1, 10), fleet_, now_);
  ASSERT_TRUE(first);
  router.on_finished(first->request, true, TimePoint{});
  const auto second = router.route(query(1, 10, {first->worker}), fleet_, now_);
  router.on_first_token(first->request, now_);  // a late report of an ended attempt
  router.on_finished(first->request, false, now_);
  ASSERT_TRUE(second);
  EXPECT_NE(second->worker, first->worker);
  EXPECT_EQ(router.loads().load(first->worker), WorkerLoad{});
  EXPECT_EQ(router.loads().load(second->worker).requests, 1U);
}

TEST_F(RouterTest, ASwitchOfModeMeetsAWarmIndexAndTheLoads) {
  Router router = make(spec::RoutingMode::kRoundRobin);
  const std::vector<kv::KvEvent> events{stored(4)};
  (void)router.on_kv_events(WorkerId(1), events);
  ASSERT_TRUE(router.route(query(1, 40), fleet_, now_));
  router.set_mode(spec::RoutingMode::kDynamo);
  const auto decision = router.route(query(2, 20), fleet_, now_);
  ASSERT_TRUE(decision);
  EXPECT_EQ(decision->worker, WorkerId(1));
  EXPECT_EQ(router.log().newest(0).candidates[0].load.requests, 1U);
  EXPECT_EQ(router.decisions(spec::RoutingMode::kRoundRobin), 1U);
  EXPECT_EQ(router.decisions(spec::RoutingMode::kDynamo), 1U);
}

TEST_F(RouterTest, AResetWorkerIsCold) {
  Router router = make(spec::RoutingMode::kDynamo);
  const std::vector<kv::KvEvent> events{stored(4)};
  (void)router.on_kv_events(WorkerId(1), events);
  router.reset_worker(WorkerId(1));
  const auto decision = router.route(query(1, 20), fleet_, now_);
  ASSERT_TRUE(decision);
  EXPECT_EQ(decision->predicted_cached_tokens, 0U);
  EXPECT_EQ(router.index().keys(), 0U);
}

TEST_F(RouterTest, TheSameHistoryGivesTheSameDecisions) {
  for (const auto mode : {spec::RoutingMode::kRandom, spec::RoutingMode::kDynamo, spec::RoutingMode::kLeastLoaded}) {
    Router a = make(mode);
    Router b = make(mode);
    for (std::uint64_t id = 1; id <= 50; ++id) {
      const auto from_a = a.route(query(id, 30), fleet_, now_);
      const auto from_b = b.route(query(id, 30), fleet_, now_);
      ASSERT_TRUE(from_a && from_b);
      EXPECT_EQ(from_a->worker, from_b->worker);
    }
  }
}

}  // namespace
}  // namespace kvist::routing::router_test

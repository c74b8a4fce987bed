// What the router learns of evictions (GhostCache), from requests and KV events as a fleet has them.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <string>

#include "kvist/kv/block_hash.h"
#include "kvist/routing/decision_replay.h"
#include "kvist/routing/router.h"

namespace kvist::routing::router_evictions_test {
namespace {

constexpr std::uint32_t kBlockSize = 4;
constexpr std::uint32_t kBlocks = 4;  // of a file
constexpr std::uint32_t kTokens = kBlocks * kBlockSize + 1;
constexpr std::size_t kRoom = 6;  // files in a worker's cache
constexpr WorkerId kFirst{0};
constexpr WorkerId kSecond{1};

std::vector<TokenId> tokens_of(std::uint32_t file) {
  std::vector<TokenId> tokens;
  tokens.reserve(kBlocks * kBlockSize);
  for (std::uint32_t i = 0; i < kBlocks * kBlockSize; ++i) tokens.emplace_back(1'000 * file + i);
  return tokens;
}

std::vector<kv::ExternalHash> names_of(std::uint32_t file) {
  std::vector<kv::ExternalHash> names;
  names.reserve(kBlocks);
  for (std::uint32_t i = 0; i < kBlocks; ++i) names.emplace_back(1'000 * file + i);
  return names;
}

/// Two workers, each of which forgets the file that it used longest ago when it has no room, and says so.
class RouterEvictions : public ::testing::TestWithParam<spec::RoutingMode> {
 protected:
  explicit RouterEvictions(spec::RoutingMode mode = spec::RoutingMode::kKv)
      : router_({.model = "m", .block_size = kBlockSize, .workers = 2, .mode = mode, .working_set = true}) {}

  RouteQuery query(std::uint32_t file) {
    const auto root = kv::root_hash({.model = "m", .lora = "", .cache_salt = ""});
    return {.request = RequestId(++requests_),
            .prompt_tokens = kTokens,
            .blocks =
                std::make_shared<const std::vector<kv::BlockHash>>(kv::hash_blocks(root, tokens_of(file), kBlockSize)),
            .streams = true,
            .excluded = {}};
  }
  Decision route(const RouteQuery& query) { return router_.route(query, fleet_, now_).value(); }
  void compute(const Decision& decision, std::uint32_t file) {
    now_ += std::chrono::milliseconds(50);
    router_.on_first_token(decision.request, now_);
    std::deque<std::uint32_t>& cache = caches_[decision.worker.value()];
    std::vector<kv::KvEvent> events;
    if (const auto found = std::ranges::find(cache, file); found != cache.end()) {
      cache.erase(found);
    } else {
      if (cache.size() == kRoom) {
        events.emplace_back(kv::BlockRemoved{.hashes = names_of(cache.front())});
        cache.pop_front();
      }
      events.emplace_back(kv::BlockStored{.hashes = names_of(file),
                                          .parent = {},
                                          .tokens = tokens_of(file),
                                          .block_size = kBlockSize,
                                          .lora_name = "",
                                          .cache_salt = ""});
    }
    cache.push_back(file);
    ASSERT_EQ(router_.on_kv_events(decision.worker, events), 0U);
    router_.on_finished(decision.request, true, now_);
    now_ += std::chrono::seconds(2);  // longer than a prompt that has ended is taken for cached
  }
  void serve(std::uint32_t file) { compute(route(query(file)), file); }
  /// Each of so many files in turn.
  void serve_all(std::uint32_t files, int rounds) {
    for (int round = 0; round < rounds; ++round)
      for (std::uint32_t file = 1; file <= files; ++file) serve(file);
  }
  [[nodiscard]] double recomputed() const { return router_.recomputed_blocks(); }

  std::vector<WorkerView> fleet_{2, WorkerView{.available = true,
                                               .events_exact = true,
                                               .limits = {.block_size = kBlockSize, .kv_blocks = kRoom * kBlocks},
                                               .group = 0}};
  Router router_;
  std::deque<std::uint32_t> caches_[2];
  TimePoint now_{std::chrono::seconds(100)};
  std::uint64_t requests_ = 0;
};

constexpr std::uint32_t kTooMany = 2 * kRoom + 1;  // a quarter more memory would hold them
constexpr std::uint32_t kFew = 2 * kRoom - 4;

TEST_F(RouterEvictions, WhatIsEvictedAndAskedForAgainIsLearnedAndRepeatable) {
  serve_all(kTooMany, 6);
  const double learned = recomputed();
  EXPECT_GT(learned, 0.2);
  (void)route(query(1));
  EXPECT_DOUBLE_EQ(router_.log().newest(0).recomputed, learned);
  const auto repeated = DecisionReplay().decide(router_.log().newest(0));
  EXPECT_EQ(repeated.outcome, DecisionReplay::Outcome::kSame);
}

TEST_F(RouterEvictions, NothingIsLearnedWhereAllHasRoom) {
  serve_all(kFew, 6);
  EXPECT_EQ(recomputed(), 0);
}

TEST_F(RouterEvictions, WhatAWorkerRefusedWasNotEvicted) {
  for (std::uint32_t file = 1; file <= 100; ++file) {
    RouteQuery again = query(file);
    const Decision refused = route(again);
    router_.on_finished(refused.request, false, now_);
    again.excluded = {refused.worker};
    compute(route(again), file);
  }
  EXPECT_EQ(recomputed(), 0) << "sent to the other worker";
  for (std::uint32_t file = 101; file <= 200; ++file) {
    router_.on_finished(route(query(file)).request, false, now_);
    now_ += std::chrono::seconds(2);
    serve(file);
  }
  EXPECT_EQ(recomputed(), 0) << "sent once more by its client";
}

TEST_F(RouterEvictions, WhatAWorkerHasThatTheRequestMayNotGoToWasNotEvicted) {
  serve_all(kFew, 1);
  for (std::uint32_t file = 1; file <= kFew; ++file) {
    RouteQuery elsewhere = query(file);
    elsewhere.excluded = {std::ranges::count(caches_[0], file) > 0 ? kFirst : kSecond};
    router_.on_finished(route(elsewhere).request, false, now_);
  }
  EXPECT_EQ(recomputed(), 0);
}

// They compute what is cached, so that the caches say nothing of what they find.
TEST_F(RouterEvictions, RequestsThatReadNoCacheSayNothing) {
  serve_all(kFew, 1);
  for (int round = 0; round < 20; ++round) {
    RouteQuery uncached = query(1);
    uncached.reads_cache = false;
    compute(route(uncached), 1);
  }
  EXPECT_EQ(recomputed(), 0);
  EXPECT_EQ(router_.recomputed_prefill_ms(), 0);
}

// As the dispatcher sees a fleet when an Envoy has decided (Dispatcher::on_served_by()), and one 500 later.
TEST_F(RouterEvictions, WorkersThatGetNothingForAWhileKeepWhatIsKnown) {
  serve_all(kTooMany, 6);
  const double learned = recomputed();
  for (int round = 0; round < 40; ++round) {
    fleet_[0].available = false;
    fleet_[0].group = round % 2 == 0 ? 0 : 1;
    serve(1);
    fleet_[0].available = true;
    fleet_[0].group = 0;
    serve_all(kTooMany, 1);
  }
  EXPECT_GT(recomputed(), 0.9 * learned);
}

TEST_F(RouterEvictions, AnIndexThatBeginsAnewLacksWhatWasNotEvicted) {
  serve_all(kFew, 1);
  router_.reset_worker(kFirst);
  router_.reset_worker(kSecond);
  for (std::uint32_t file = 1; file <= kFew; ++file) {
    router_.on_finished(route(query(file)).request, false, now_);
    now_ += std::chrono::seconds(2);
  }
  EXPECT_EQ(recomputed(), 0);
}

/// Turns everything down.
struct NobodyMay : AdmissionCheck {
  [[nodiscard]] bool admits(const Candidate& /*candidate*/) override { return false; }
};

TEST_F(RouterEvictions, HowManyWaitOnAverageIsAMatterOfDecisionsAndNotOfAttempts) {
  serve_all(kTooMany, 6);
  const auto mean_waiting = [&] {
    (void)route(query(1));
    return router_.log().newest(0).mean_waiting;
  };
  for (std::uint32_t file = 1; file <= 40; ++file) (void)route(query(file));  // all of them wait
  const double before = mean_waiting();
  EXPECT_GT(before, 0);
  NobodyMay check;
  for (int i = 0; i < 1'000; ++i) EXPECT_FALSE(router_.route(query(1), fleet_, now_, &check));
  EXPECT_LT(mean_waiting(), 1.1 * before);
}

class RouterEvictionsInMode : public RouterEvictions {
 protected:
  RouterEvictionsInMode() : RouterEvictions(GetParam()) {}
};

TEST_P(RouterEvictionsInMode, AnotherPromptInFlightWasNotEvicted) {
  for (std::uint32_t file = 1; file <= 50; ++file) {
    std::vector<Decision> together;
    together.reserve(4);
    for (int i = 0; i < 4; ++i) together.push_back(route(query(file)));
    for (const Decision& decision : together) compute(decision, file);
  }
  EXPECT_EQ(recomputed(), 0);
}

INSTANTIATE_TEST_SUITE_P(Modes, RouterEvictionsInMode,
                         ::testing::Values(spec::RoutingMode::kKv, spec::RoutingMode::kRoundRobin,
                                           spec::RoutingMode::kDynamo, spec::RoutingMode::kSglang),
                         [](const auto& one) { return std::string(spec::to_string(one.param)); });

}  // namespace
}  // namespace kvist::routing::router_evictions_test

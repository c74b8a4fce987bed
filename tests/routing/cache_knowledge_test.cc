#include "kvist/routing/cache_knowledge.h"

#include <gtest/gtest.h>

namespace kvist::routing {
namespace {

constexpr std::uint32_t kBlockSize = 4;
constexpr std::uint32_t kBlocks = 100;
constexpr std::uint32_t kPromptTokens = kBlocks * kBlockSize + 1;

class CacheKnowledgeTest : public ::testing::Test {
 protected:
  static std::vector<TokenId> tokens(std::uint32_t count, std::uint32_t family) {
    std::vector<TokenId> result;
    for (std::uint32_t i = 0; i < count; ++i) result.emplace_back(family * 1'000 + i);
    return result;
  }
  static BlockKeys prompt(std::uint32_t family = 0) {
    const auto root = kv::root_hash({.model = "m", .lora = "", .cache_salt = ""});
    return std::make_shared<const std::vector<kv::BlockHash>>(
        kv::hash_blocks(root, tokens(kPromptTokens, family), kBlockSize));
  }
  void store(WorkerId worker, std::uint32_t blocks = kBlocks, std::uint32_t family = 0) {
    kv::BlockStored event;
    event.block_size = kBlockSize;
    event.tokens = tokens(blocks * kBlockSize, family);
    for (std::uint64_t i = 1; i <= blocks; ++i) event.hashes.emplace_back(family * 1'000 + i);
    const std::vector<kv::KvEvent> events{event};
    ASSERT_EQ(caches_.on_kv_events(worker, events), 0U);
  }
  const std::vector<CacheDepth>& match(const BlockKeys& keys, bool with_in_flight = true) {
    caches_.match(view(keys), fleet_, in_flight_, with_in_flight, now_, depths_);
    return depths_;
  }
  RequestId route(WorkerId worker, const BlockKeys& keys) {
    match(keys);
    const RequestId request(++last_request_);
    caches_.on_routed(request, worker, keys, kPromptTokens, 0, now_);
    return request;
  }
  /// A request that was answered with this share of its prompt from the cache.
  void answer(WorkerId worker, const BlockKeys& keys, double cached_share) {
    const RequestId request = route(worker, keys);
    caches_.on_usage(request, static_cast<std::uint64_t>(cached_share * kPromptTokens));
    caches_.on_finished(request, true, now_);
    now_ += std::chrono::seconds(3);  // nothing is settling any more
  }
  CacheTrustReport report(WorkerId worker) const { return caches_.report(worker, fleet_[worker.value()].events_exact); }

  CacheKnowledge caches_{{.model = "m", .block_size = kBlockSize, .workers = 2}};
  std::vector<WorkerView> fleet_{2, WorkerView{.available = true, .events_exact = true, .limits = {}}};
  std::vector<std::uint32_t> in_flight_{0, 0};
  std::vector<CacheDepth> depths_{2};
  TimePoint now_{std::chrono::seconds(1)};
  std::uint64_t last_request_ = 0;
  WorkerId a_{0};
  WorkerId b_{1};
};

TEST_F(CacheKnowledgeTest, EventsDecideWhereTheyAreExact) {
  store(a_, 60);
  const BlockKeys keys = prompt();
  EXPECT_EQ(match(keys)[0].blocks, 60U);
  EXPECT_EQ(match(keys)[0].trust, CacheTrust::kExact);
  EXPECT_EQ(match(keys)[1].blocks, 0U);
}

TEST_F(CacheKnowledgeTest, BlocksInFlightAndOfRequestsJustEndedCountBeforeTheirEvents) {
  const BlockKeys keys = prompt();
  const RequestId request = route(b_, keys);
  in_flight_[1] = kBlocks;
  EXPECT_EQ(match(keys)[1].blocks, kBlocks);
  EXPECT_EQ(match(keys, false)[1].blocks, 0U) << "the published costs of other modes count events";
  caches_.on_finished(request, true, now_);
  in_flight_[1] = 0;
  EXPECT_EQ(match(keys)[1].blocks, kBlocks);
  now_ += std::chrono::seconds(2);
  EXPECT_EQ(match(keys)[1].blocks, 0U) << "the events had their time";
}

TEST_F(CacheKnowledgeTest, ARequestThatNeverGotComputedLeavesNothing) {
  const BlockKeys keys = prompt();
  caches_.on_finished(route(b_, keys), false, now_);
  EXPECT_EQ(match(keys)[1].blocks, 0U);
}

TEST_F(CacheKnowledgeTest, WithoutEventsARoutedPromptCountsUntilItExpires) {
  fleet_[0].events_exact = false;
  const BlockKeys keys = prompt();
  route(a_, keys);
  EXPECT_EQ(match(keys)[0].trust, CacheTrust::kPredicted);
  EXPECT_EQ(match(keys)[0].blocks, kBlocks);
  now_ += std::chrono::minutes(3);
  EXPECT_EQ(match(keys)[0].blocks, 0U);
}

TEST_F(CacheKnowledgeTest, AStreamThatBreaksKeepsWhatItToldAndWhatWasRouted) {
  store(a_, 60);
  const BlockKeys keys = prompt();
  fleet_[0].events_exact = false;
  EXPECT_EQ(match(keys)[0].blocks, 60U);
  EXPECT_EQ(match(keys)[0].trust, CacheTrust::kPredicted);
  fleet_[0].events_exact = true;
  route(a_, keys);
  fleet_[0].events_exact = false;
  EXPECT_EQ(match(keys)[0].blocks, kBlocks) << "prompts are remembered of exact workers too";
}

TEST_F(CacheKnowledgeTest, PredictionsThatDoNotComeTrueFadeToNothingAndRecover) {
  fleet_[0].events_exact = false;
  const BlockKeys keys = prompt();
  route(a_, keys);
  caches_.reset_events(a_);
  std::uint32_t last = match(keys)[0].blocks;
  EXPECT_EQ(last, kBlocks);
  std::uint32_t steepest = 0;
  for (int i = 0; i < 60; ++i) {
    answer(a_, keys, 0);
    const std::uint32_t blocks = match(keys)[0].blocks;
    EXPECT_LE(blocks, last);
    steepest = std::max(steepest, last - blocks);
    last = blocks;
  }
  EXPECT_EQ(last, 0U);
  EXPECT_LT(report(a_).predicted_share, 0.1);
  EXPECT_LE(steepest, kBlocks / 5) << "smoothly";
  EXPECT_EQ(report(a_).corrections, 60U);
  for (int i = 0; i < 40; ++i) answer(a_, keys, 1);
  EXPECT_EQ(match(keys)[0].blocks, kBlocks);
}

TEST_F(CacheKnowledgeTest, EventsThatAnswersContradictLoseTheirTrustUntilTheyAgreeAgain) {
  store(a_);
  const BlockKeys keys = prompt();
  for (int i = 0; i < 40; ++i) answer(a_, keys, 0.2);
  EXPECT_NE(match(keys)[0].trust, CacheTrust::kExact);
  EXPECT_EQ(report(a_).distrusted, 1U);
  EXPECT_LT(match(keys)[0].blocks, kBlocks / 3);
  EXPECT_EQ(match(keys)[1].trust, CacheTrust::kExact);
  for (int i = 0; i < 40; ++i) answer(a_, keys, 1);
  EXPECT_EQ(match(keys)[0].trust, CacheTrust::kExact);
  EXPECT_EQ(match(keys)[0].blocks, kBlocks);
}

TEST_F(CacheKnowledgeTest, AResetStreamIsTrustedAgain) {
  store(a_);
  const BlockKeys keys = prompt();
  for (int i = 0; i < 60; ++i) answer(a_, keys, 0);
  EXPECT_NE(match(keys)[0].trust, CacheTrust::kExact);
  caches_.reset_events(a_);
  store(a_);
  EXPECT_EQ(match(keys)[0].trust, CacheTrust::kExact);
  EXPECT_EQ(match(keys)[0].blocks, kBlocks);
}

TEST_F(CacheKnowledgeTest, AnswersUnderWayAreNotHeldAgainstAStreamThatBeganAnew) {
  const BlockKeys keys = prompt();
  store(a_);
  std::vector<RequestId> under_way;
  for (int i = 0; i < 8; ++i) under_way.push_back(route(a_, keys));
  caches_.on_restarted(a_);
  under_way.push_back(route(a_, keys));  // by events of before the restart: they end a moment later
  caches_.reset_events(a_);
  for (const RequestId request : under_way) caches_.on_usage(request, 0);
  EXPECT_EQ(report(a_).trust, CacheTrust::kExact);
  EXPECT_EQ(report(a_).events_share, 1);
  EXPECT_EQ(report(a_).predicted_share, 1);
  EXPECT_EQ(report(a_).corrections, 0U);
  store(a_);
  caches_.on_usage(route(a_, keys), 0);
  EXPECT_EQ(report(a_).corrections, 2U) << "what comes after counts again, for both sources";
}

TEST_F(CacheKnowledgeTest, WithoutUsageNothingChanges) {
  store(a_);
  const BlockKeys keys = prompt();
  for (int i = 0; i < 100; ++i) caches_.on_finished(route(a_, keys), true, now_);
  EXPECT_EQ(match(keys)[0].trust, CacheTrust::kExact);
  EXPECT_EQ(report(a_).events_share, 1.0);
}

TEST_F(CacheKnowledgeTest, MoreThanExpectedIsNoMistake) {
  store(a_, 10);
  const BlockKeys keys = prompt();
  for (int i = 0; i < 20; ++i) answer(a_, keys, 1);
  EXPECT_EQ(report(a_).events_share, 1.0);
  EXPECT_EQ(report(a_).corrections, 0U);
}

TEST_F(CacheKnowledgeTest, EventsThatStopWhileTheWorkerGeneratesAreSilent) {
  store(a_);
  const BlockKeys keys = prompt();
  // Two requests decoding: after 2 x 2 blocks and one more of tokens, one of them has filled a block.
  for (int i = 0; i < 30; ++i) {
    caches_.on_generated(a_, 1, 2, now_);
    now_ += std::chrono::milliseconds(30);
  }
  EXPECT_FALSE(report(a_).events_silent) << "not for long enough";
  for (int i = 0; i < 20; ++i) {
    caches_.on_generated(a_, 1, 2, now_);
    now_ += std::chrono::milliseconds(30);
  }
  EXPECT_TRUE(report(a_).events_silent);
  EXPECT_EQ(match(keys)[0].trust, CacheTrust::kPredicted);
  EXPECT_EQ(match(keys)[0].blocks, kBlocks) << "what was told is still the best there is";
  store(a_, 1, 7);
  EXPECT_EQ(match(keys)[0].trust, CacheTrust::kExact);
}

TEST_F(CacheKnowledgeTest, ARestartedWorkerHasNoRoutedPrompts) {
  fleet_[0].events_exact = false;
  const BlockKeys keys = prompt();
  caches_.on_finished(route(a_, keys), true, now_);
  caches_.on_restarted(a_);
  EXPECT_EQ(match(keys)[0].blocks, 0U);
}

TEST_F(CacheKnowledgeTest, RetriedRequestsAreHeldAgainstTheWorkerThatAnswers) {
  const BlockKeys keys = prompt();
  store(a_);
  store(b_);
  const RequestId request = route(a_, keys);
  caches_.on_finished(request, false, now_);
  match(keys);
  caches_.on_routed(request, b_, keys, kPromptTokens, 0, now_);
  caches_.on_usage(request, 0);
  EXPECT_EQ(report(a_).usage_reports, 0U);
  EXPECT_EQ(report(b_).usage_reports, 1U);
}

}  // namespace
}  // namespace kvist::routing

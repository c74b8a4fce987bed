#include "kvist/routing/cache_knowledge.h"

#include <gtest/gtest.h>

#include "event_feed.h"

namespace kvist::routing::cache_knowledge_test {
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
    ASSERT_EQ(feed(caches_, worker, events), 0U);
  }
  const CacheDepths& match(const BlockKeys& keys, bool with_in_flight = true) {
    caches_.match(view(keys), fleet_, in_flight_, with_in_flight, now_, depths_);
    return depths_;
  }
  RequestHandle route(WorkerId worker, const BlockKeys& keys) {
    match(keys);
    const RequestHandle handle = requests_.insert(
        {.id = RequestId(++last_request_), .worker = worker, .prompt_tokens = kPromptTokens, .blocks = keys});
    caches_.on_routed(*requests_.find(handle), 0, now_);
    return handle;
  }
  void usage(RequestHandle request, std::uint64_t cached_tokens) {
    caches_.on_usage(*requests_.find(request), cached_tokens);
  }
  void finish(RequestHandle request, bool computed, std::uint64_t output_tokens) {
    caches_.on_finished(*requests_.find(request), computed, output_tokens, now_);
    requests_.erase(request);
  }
  /// A request that was answered with this share of its prompt from the cache.
  void answer(WorkerId worker, const BlockKeys& keys, double cached_share) {
    const RequestHandle request = route(worker, keys);
    usage(request, static_cast<std::uint64_t>(cached_share * kPromptTokens));
    CacheKnowledge::on_computed(*requests_.find(request));
    finish(request, true, 1);
    now_ += std::chrono::seconds(3);  // nothing has ended recently any more
  }
  CacheTrust trust(WorkerId worker) const { return caches_.trust(worker, fleet_[worker.value()].events_exact); }
  CacheTrustReport report(WorkerId worker) const { return caches_.report(worker, fleet_[worker.value()].events_exact); }

  RoutedRequests requests_;
  CacheKnowledge caches_{{.model = "m", .block_size = kBlockSize, .workers = 2}, requests_};
  std::vector<WorkerView> fleet_{2, WorkerView{.available = true, .events_exact = true, .limits = {}}};
  std::vector<std::uint32_t> in_flight_{0, 0};
  CacheDepths depths_{2};
  TimePoint now_{std::chrono::seconds(1)};
  std::uint64_t last_request_ = 0;
  WorkerId a_{0};
  WorkerId b_{1};
};

TEST_F(CacheKnowledgeTest, EventsDecideWhereTheyAreExact) {
  store(a_, 60);
  const BlockKeys keys = prompt();
  EXPECT_EQ(match(keys).blocks[0], 60U);
  EXPECT_EQ(trust(a_), CacheTrust::kExact);
  EXPECT_EQ(match(keys).blocks[1], 0U);
}

TEST_F(CacheKnowledgeTest, BlocksInFlightAndOfRequestsJustEndedCountBeforeTheirEvents) {
  const BlockKeys keys = prompt();
  const RequestHandle request = route(b_, keys);
  in_flight_[1] = kBlocks;
  EXPECT_EQ(match(keys).blocks[1], kBlocks);
  EXPECT_EQ(match(keys, false).blocks[1], 0U) << "the published costs of other modes count events";
  finish(request, true, 1);
  in_flight_[1] = 0;
  EXPECT_EQ(match(keys).blocks[1], kBlocks);
  now_ += std::chrono::seconds(2);
  EXPECT_EQ(match(keys).blocks[1], 0U) << "the events had their time";
}

TEST_F(CacheKnowledgeTest, ARequestThatNeverGotComputedLeavesNothing) {
  const BlockKeys keys = prompt();
  finish(route(b_, keys), false, 0);
  EXPECT_EQ(match(keys).blocks[1], 0U);
}

TEST_F(CacheKnowledgeTest, WithoutEventsARoutedPromptCountsUntilItExpires) {
  fleet_[0].events_exact = false;
  const BlockKeys keys = prompt();
  route(a_, keys);
  EXPECT_EQ(trust(a_), CacheTrust::kPredicted);
  EXPECT_EQ(match(keys).blocks[0], kBlocks);
  now_ += std::chrono::minutes(3);
  EXPECT_EQ(match(keys).blocks[0], 0U);
}

TEST_F(CacheKnowledgeTest, ABrokenStreamKeepsItsEventsAndTheRoutedPrompts) {
  store(a_, 60);
  const BlockKeys keys = prompt();
  fleet_[0].events_exact = false;
  EXPECT_EQ(match(keys).blocks[0], 60U);
  EXPECT_EQ(trust(a_), CacheTrust::kPredicted);
  fleet_[0].events_exact = true;
  route(a_, keys);
  fleet_[0].events_exact = false;
  EXPECT_EQ(match(keys).blocks[0], kBlocks) << "prompts are remembered of exact workers too";
}

// It may have restarted with its publisher off, and nothing would ever say so.
TEST_F(CacheKnowledgeTest, AnIndexWhoseEventsHaveEndedCountsForTwoMinutes) {
  const BlockKeys keys = prompt();
  store(a_, 60);
  store(b_, 60);
  EXPECT_EQ(match(keys).blocks[0], 60U);
  fleet_[0].events_exact = false;
  now_ += std::chrono::seconds(119);
  EXPECT_EQ(match(keys).blocks[0], 60U);
  now_ += std::chrono::seconds(2);
  EXPECT_EQ(match(keys).blocks[0], 0U);
  EXPECT_EQ(match(keys).blocks[1], 60U) << "exact events may be old";
  store(a_, 61);
  EXPECT_EQ(match(keys).blocks[0], 61U) << "it publishes";
}

TEST_F(CacheKnowledgeTest, WrongPredictionsLoseTheirWeightAndRecover) {
  fleet_[0].events_exact = false;
  const BlockKeys keys = prompt();
  route(a_, keys);
  reset_events(caches_, a_);
  std::uint32_t last = match(keys).blocks[0];
  EXPECT_EQ(last, kBlocks);
  std::uint32_t steepest = 0;
  for (int i = 0; i < 60; ++i) {
    answer(a_, keys, 0);
    const std::uint32_t blocks = match(keys).blocks[0];
    EXPECT_LE(blocks, last);
    steepest = std::max(steepest, last - blocks);
    last = blocks;
  }
  EXPECT_EQ(last, 0U);
  EXPECT_LT(report(a_).predicted_share, 0.1);
  EXPECT_LE(steepest, kBlocks / 5) << "smoothly";
  EXPECT_EQ(report(a_).corrections, 60U);
  for (int i = 0; i < 40; ++i) answer(a_, keys, 1);
  EXPECT_EQ(match(keys).blocks[0], kBlocks);
}

TEST_F(CacheKnowledgeTest, ContradictedEventsAreNotTrustedUntilAnswersAgreeAgain) {
  store(a_);
  const BlockKeys keys = prompt();
  for (int i = 0; i < 40; ++i) answer(a_, keys, 0.2);
  EXPECT_NE(trust(a_), CacheTrust::kExact);
  EXPECT_EQ(report(a_).distrusted, 1U);
  EXPECT_LT(match(keys).blocks[0], kBlocks / 3);
  EXPECT_EQ(trust(b_), CacheTrust::kExact);
  store(a_, 1, 7);  // its events come
  for (int i = 0; i < 40; ++i) answer(a_, keys, 1);
  EXPECT_EQ(trust(a_), CacheTrust::kExact);
  EXPECT_EQ(match(keys).blocks[0], kBlocks);
}

TEST_F(CacheKnowledgeTest, AResetStreamIsTrustedAgain) {
  store(a_);
  const BlockKeys keys = prompt();
  for (int i = 0; i < 60; ++i) answer(a_, keys, 0);
  EXPECT_NE(trust(a_), CacheTrust::kExact);
  reset_events(caches_, a_);
  store(a_);
  EXPECT_EQ(trust(a_), CacheTrust::kExact);
  EXPECT_EQ(match(keys).blocks[0], kBlocks);
}

TEST_F(CacheKnowledgeTest, AnswersUnderWayDoNotContradictARestartedStream) {
  const BlockKeys keys = prompt();
  store(a_);
  std::vector<RequestHandle> under_way;
  for (int i = 0; i < 8; ++i) under_way.push_back(route(a_, keys));
  caches_.on_restarted(a_);
  under_way.push_back(route(a_, keys));  // by events of before the restart: they end a moment later
  reset_events(caches_, a_);
  for (const RequestHandle request : under_way) usage(request, 0);
  EXPECT_EQ(report(a_).trust, CacheTrust::kExact);
  EXPECT_EQ(report(a_).events_share, 1);
  EXPECT_EQ(report(a_).predicted_share, 1);
  EXPECT_EQ(report(a_).corrections, 0U);
  store(a_);
  usage(route(a_, keys), 0);
  EXPECT_EQ(report(a_).corrections, 2U) << "what comes after counts again, for both sources";
}

TEST_F(CacheKnowledgeTest, WithoutUsageNothingChanges) {
  store(a_);
  const BlockKeys keys = prompt();
  for (int i = 0; i < 100; ++i) finish(route(a_, keys), true, 1);
  EXPECT_EQ(trust(a_), CacheTrust::kExact);
  EXPECT_EQ(report(a_).events_share, 1.0);
}

TEST_F(CacheKnowledgeTest, MoreThanExpectedDoesNotCountAgainstASource) {
  store(a_, 10);
  const BlockKeys keys = prompt();
  for (int i = 0; i < 20; ++i) answer(a_, keys, 1);
  EXPECT_EQ(report(a_).events_share, 1.0);
  EXPECT_EQ(report(a_).corrections, 0U);
}

TEST_F(CacheKnowledgeTest, EventsThatStopWhileTheWorkerStoresBlocksAreSilent) {
  store(a_);
  const BlockKeys keys = prompt();
  const RequestHandle request = route(a_, prompt(5));
  usage(request, 0);
  finish(request, true, 1);
  now_ += std::chrono::milliseconds(900);
  caches_.on_progress(a_, now_);
  EXPECT_FALSE(report(a_).events_silent) << "its event may be under way";
  EXPECT_EQ(match(prompt(5)).blocks[0], kBlocks) << "it ended a moment ago";
  now_ += std::chrono::milliseconds(200);
  caches_.on_progress(a_, now_);
  EXPECT_FALSE(report(a_).events_silent) << "late is not silent";
  EXPECT_EQ(report(a_).trust, CacheTrust::kExact);
  EXPECT_EQ(match(prompt(5)).blocks[0], kBlocks) << "but what was routed counts";
  now_ += std::chrono::seconds(4);
  caches_.on_progress(a_, now_);
  EXPECT_TRUE(report(a_).events_silent);
  EXPECT_EQ(report(a_).trust, CacheTrust::kPredicted);
  EXPECT_EQ(match(keys).blocks[0], kBlocks) << "what was told is still the best there is";
  store(a_, 1, 7);
  EXPECT_EQ(trust(a_), CacheTrust::kExact);
}

TEST_F(CacheKnowledgeTest, AWorkerThatHadNothingToStoreIsNotSilent) {
  store(a_);
  const BlockKeys keys = prompt();
  for (int i = 0; i < 50; ++i) {
    const RequestHandle request = route(a_, keys);
    now_ += std::chrono::milliseconds(500);
    caches_.on_progress(a_, now_);
    usage(request, kBlocks * kBlockSize);  // all but the last token
    finish(request, true, 1'000);          // an answer that may be in the cache as well
  }
  EXPECT_FALSE(report(a_).events_silent);
}

TEST_F(CacheKnowledgeTest, AnEventWhileARequestWasThereMayBeItsOwn) {
  store(a_);
  const RequestHandle request = route(a_, prompt(5));
  store(a_, kBlocks, 5);
  now_ += std::chrono::seconds(5);
  usage(request, 0);
  finish(request, true, 1);
  now_ += std::chrono::seconds(5);
  caches_.on_progress(a_, now_);
  EXPECT_FALSE(report(a_).events_silent);
}

TEST_F(CacheKnowledgeTest, WithoutUsageAnAnswerThatFillsABlockMustCauseAnEvent) {
  store(a_);
  const auto ended = [&](std::uint64_t output_tokens) {
    finish(route(a_, prompt()), true, output_tokens);
    now_ += std::chrono::seconds(6);
    caches_.on_progress(a_, now_);
  };
  ended(kBlockSize - 1);  // with the prompt's odd token and without its own last one: a token short
  EXPECT_FALSE(report(a_).events_silent);
  ended(kBlockSize);
  EXPECT_TRUE(report(a_).events_silent);
}

TEST_F(CacheKnowledgeTest, AClearedCacheKeepsPredictionsOnlyOfPromptsToBeComputed) {
  const BlockKeys old = prompt(1);
  const BlockKeys decoding = prompt(2);
  const BlockKeys uncomputed = prompt(3);
  fleet_[0].events_exact = false;
  for (const BlockKeys& keys : {old, decoding, uncomputed}) store(a_, kBlocks, keys == old ? 1 : 2);
  answer(a_, old, 1);
  const RequestHandle under_way = route(a_, decoding);
  CacheKnowledge::on_computed(*requests_.find(under_way));
  const RequestHandle waiting = route(a_, uncomputed);
  const std::vector<kv::KvEvent> cleared{kv::AllBlocksCleared{}};
  feed(caches_, a_, cleared);
  EXPECT_EQ(match(old).blocks[0], 0U);
  EXPECT_EQ(match(decoding).blocks[0], 0U);
  EXPECT_EQ(match(uncomputed).blocks[0], kBlocks) << "its events come after the clear";
  const std::uint64_t corrections = report(a_).corrections;
  usage(under_way, 0);
  EXPECT_EQ(report(a_).corrections, corrections) << "what it was promised was before";
  finish(waiting, false, 0);
  EXPECT_EQ(match(uncomputed).blocks[0], 0U) << "it never got computed";
}

TEST_F(CacheKnowledgeTest, AnUnreportedClearIsNoticedByAFewAnswers) {
  fleet_[0].events_exact = false;
  for (std::uint32_t i = 0; i < 20; ++i) answer(a_, prompt(i), 0);
  for (std::uint32_t i = 0; i < CacheKnowledge::kDenials; ++i) {
    EXPECT_GE(match(prompt(i)).blocks[0], kBlocks / 2) << i;
    answer(a_, prompt(i), 0.2);
  }
  EXPECT_EQ(match(prompt(19)).blocks[0], 0U) << "nobody has asked for it yet";
  EXPECT_GT(match(prompt(1)).blocks[0], kBlocks / 2) << "it was computed again";
}

TEST_F(CacheKnowledgeTest, BlocksBehindAnUnknownParentArePlacedByARoutedPrompt) {
  fleet_[0].events_exact = false;
  reset_events(caches_, a_);
  const BlockKeys keys = prompt();
  const RequestHandle request = route(a_, keys);
  // The worker holds the first 60 already, and stores the rest.
  kv::BlockStored rest;
  rest.block_size = kBlockSize;
  rest.parent = kv::ExternalHash(60);
  const std::vector<TokenId> all = tokens(kBlocks * kBlockSize, 0);
  rest.tokens.assign(all.begin() + 60 * kBlockSize, all.end());
  for (std::uint64_t i = 61; i <= kBlocks; ++i) rest.hashes.emplace_back(i);
  const std::vector<kv::KvEvent> events{rest};
  EXPECT_EQ(feed(caches_, a_, events), 0U);
  std::vector<std::uint32_t> depths(2);
  caches_.index().match(view(keys), depths);
  EXPECT_EQ(depths[0], kBlocks);
  EXPECT_EQ(report(a_).adopted_prefixes, 1U);
  usage(request, 60 * kBlockSize);
  EXPECT_EQ(report(a_).adopted_prefixes, 1U) << "the answer says so too";
  // The end is removed, the parent last, so that nothing depends on it any more.
  kv::BlockRemoved gone;
  for (std::uint64_t i = kBlocks; i > 60; --i) gone.hashes.emplace_back(i);
  const std::vector<kv::KvEvent> end_gone{gone};
  feed(caches_, a_, end_gone);
  caches_.index().match(view(keys), depths);
  EXPECT_EQ(depths[0], 60U);
  const std::vector<kv::KvEvent> parent_gone{kv::BlockRemoved{.hashes = {kv::ExternalHash(60)}}};
  feed(caches_, a_, parent_gone);
  caches_.index().match(view(keys), depths);
  EXPECT_EQ(depths[0], 0U);
  EXPECT_EQ(caches_.index().worker_blocks(a_), 0U);
  EXPECT_EQ(report(a_).adopted_prefixes, 0U);
}

TEST_F(CacheKnowledgeTest, AContradictingAnswerRevokesThePlace) {
  fleet_[0].events_exact = false;
  reset_events(caches_, a_);
  const RequestHandle request = route(a_, prompt());
  kv::BlockStored rest;  // of another prompt, which continues with the same text
  rest.block_size = kBlockSize;
  rest.parent = kv::ExternalHash(60);
  const std::vector<TokenId> all = tokens(kBlocks * kBlockSize, 0);
  rest.tokens.assign(all.begin() + 60 * kBlockSize, all.end());
  for (std::uint64_t i = 61; i <= kBlocks; ++i) rest.hashes.emplace_back(i);
  const std::vector<kv::KvEvent> events{rest};
  feed(caches_, a_, events);
  EXPECT_EQ(report(a_).adopted_prefixes, 1U);
  usage(request, 0);
  EXPECT_EQ(report(a_).adopted_prefixes, 0U);
  std::vector<std::uint32_t> depths(2);
  caches_.index().match(view(prompt()), depths);
  EXPECT_EQ(depths[0], 0U);
}

TEST_F(CacheKnowledgeTest, TheKnownShareFollowsTheAnswers) {
  fleet_[0].events_exact = false;
  EXPECT_EQ(report(a_).known_share, 0);
  store(a_, 50);
  answer(a_, prompt(), 1);
  EXPECT_NEAR(report(a_).known_share, 0.5, 0.01);
  fleet_[0].events_exact = true;
  EXPECT_EQ(report(a_).known_share, 1);
}

TEST_F(CacheKnowledgeTest, ARestartedWorkerHasNoRoutedPrompts) {
  fleet_[0].events_exact = false;
  const BlockKeys keys = prompt();
  finish(route(a_, keys), true, 1);
  caches_.on_restarted(a_);
  EXPECT_EQ(match(keys).blocks[0], 0U);
}

TEST_F(CacheKnowledgeTest, RetriedRequestsCountForTheWorkerThatAnswers) {
  const BlockKeys keys = prompt();
  store(a_);
  store(b_);
  finish(route(a_, keys), false, 0);
  usage(route(b_, keys), 0);
  EXPECT_EQ(report(a_).usage_reports, 0U);
  EXPECT_EQ(report(b_).usage_reports, 1U);
}

/// More workers than are looked at side by side, and some besides.
TEST(CacheKnowledgeOfAFleet, EachWorkersDepthIsItsOwn) {
  constexpr std::uint32_t kWorkers = 11;
  constexpr std::uint32_t kBlock = 16;
  RoutedRequests requests;
  CacheKnowledge caches({.model = "m", .block_size = kBlock, .workers = kWorkers}, requests);
  std::vector<WorkerView> fleet(kWorkers, {.available = true, .events_exact = true});
  fleet[5].events_exact = false;
  std::vector<TokenId> tokens;
  for (std::uint32_t i = 0; i < 20 * kBlock; ++i) tokens.emplace_back(i);
  const auto root = kv::root_hash({.model = "m", .lora = "", .cache_salt = ""});
  const std::vector<kv::BlockHash> prompt = kv::hash_blocks(root, tokens, kBlock);
  const auto store = [&](std::uint32_t worker, std::uint32_t blocks, kv::Medium medium) {
    kv::BlockStored event;
    event.block_size = kBlock;
    event.medium = medium;
    event.tokens.assign(tokens.begin(), tokens.begin() + blocks * kBlock);
    for (std::uint64_t i = 1; i <= blocks; ++i) event.hashes.emplace_back(i);
    const std::vector<kv::KvEvent> events{event};
    ASSERT_EQ(feed(caches, WorkerId(worker), events), 0U);
  };
  for (std::uint32_t worker = 0; worker < kWorkers; worker += 2) store(worker, worker + 1, kv::Medium::kDevice);
  store(3, 4, kv::Medium::kHost);
  const std::vector<std::uint32_t> in_flight{0, 2, 9, 0, 1, 6, 0, 0, 0, 12, 3};
  CacheDepths depths(kWorkers);
  const auto blocks = [&] { return std::vector(depths.blocks.begin(), depths.blocks.begin() + kWorkers); };
  caches.match(prompt, fleet, in_flight, true, TimePoint{}, depths);
  EXPECT_EQ(depths.lower_tiers[3], 4U);
  EXPECT_EQ(depths.held[3], 4U);
  depths.blocks[3] = 0;  // by the weight of host memory
  EXPECT_EQ(blocks(), (std::vector<std::uint32_t>{1, 2, 9, 0, 5, 0, 7, 0, 9, 12, 11}))
      << "what is in flight needs exact events";
  EXPECT_TRUE(std::ranges::equal(caches.known(), std::vector<std::uint32_t>{0, 1, 2, 3, 4, 5, 6, 8, 9, 10}, {},
                                 &WorkerId::value));
  caches.match(prompt, fleet, in_flight, false, TimePoint{}, depths);
  depths.blocks[3] = 0;
  EXPECT_EQ(blocks(), (std::vector<std::uint32_t>{1, 0, 3, 0, 5, 0, 7, 0, 9, 0, 11})) << "events alone";
  const std::vector<std::uint32_t> none(kWorkers);
  std::ranges::reverse(tokens);
  caches.match(kv::hash_blocks(root, tokens, kBlock), fleet, none, true, TimePoint{}, depths);
  for (const auto* list : {&depths.blocks, &depths.held, &depths.lower_tiers})
    EXPECT_EQ(std::ranges::count(*list, 0U), std::ssize(*list)) << "of another prompt nothing is known";
  EXPECT_TRUE(caches.known().empty());
}

}  // namespace
}  // namespace kvist::routing::cache_knowledge_test

// The index with an owner of its own: what routing sees of it, learns of it, and asks of it.
#include "kvist/routing/event_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kvist/kv/kv_event_view.h"
#include "kvist/routing/cache_knowledge.h"

namespace kvist::routing::event_index_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

constexpr std::uint32_t kBlockSize = 4;
constexpr std::uint32_t kBlocks = 20;

std::vector<TokenId> tokens(std::uint32_t blocks, std::uint32_t family) {
  std::vector<TokenId> result;
  for (std::uint32_t i = 0; i < blocks * kBlockSize; ++i) result.emplace_back(family * 1'000 + i);
  return result;
}

BlockKeys prompt(std::uint32_t family) {
  const auto root = kv::root_hash({.model = "m", .lora = "", .cache_salt = ""});
  return std::make_shared<const std::vector<kv::BlockHash>>(kv::hash_blocks(root, tokens(kBlocks, family), kBlockSize));
}

/// The blocks of a prompt from `first` on; those before it are what the worker held already.
kv::KvEvent stored(std::uint32_t family, std::uint32_t first = 0) {
  kv::BlockStored event;
  event.block_size = kBlockSize;
  const std::vector<TokenId> all = tokens(kBlocks, family);
  event.tokens.assign(all.begin() + first * kBlockSize, all.end());
  for (std::uint64_t i = first; i < kBlocks; ++i) event.hashes.emplace_back(family * 1'000 + i + 1);
  if (first > 0) event.parent = kv::ExternalHash(family * 1'000 + first);
  return event;
}

TEST(EventNewsTest, AddsUpToWhatIsTrueInTheEnd) {
  const EventNews cleared{.batches = 1, .begun_anew = true, .cache_emptied = true, .keeps_uncomputed = true};
  const EventNews restarted{.cache_emptied = true};
  EventNews news{.batches = 2};
  EXPECT_FALSE(news.empty());
  EXPECT_TRUE(EventNews{}.empty());
  news.add(cleared);
  EXPECT_EQ(news.batches, 3U);
  EXPECT_TRUE(news.begun_anew && news.cache_emptied && news.keeps_uncomputed);
  news.add(restarted);
  EXPECT_FALSE(news.keeps_uncomputed) << "what was still to be computed is gone with the worker";
  news.add(EventNews{.batches = 1});
  news.add(cleared);
  EXPECT_TRUE(news.keeps_uncomputed) << "what was routed after the restart is still to be computed";
}

TEST(PromptsUnderWayTest, EachPlacesBlocksOnceAndItsAnswerMayComeBeforeOrAfter) {
  PromptsUnderWay prompts(2);
  const WorkerId worker(1);
  const auto second = prompts.add(worker, {RequestId(2), prompt(2)});
  const auto first = prompts.add(worker, {RequestId(1), prompt(1)});
  const auto other = prompts.add(WorkerId(0), {RequestId(3), prompt(3)});
  const auto ids = [&] {
    std::vector<RequestId> result;
    for (const PromptsUnderWay::Prompt& one : prompts.unplaced(worker)) result.push_back(one.request);
    return result;
  };
  EXPECT_THAT(ids(), ElementsAre(RequestId(1), RequestId(2)));
  EXPECT_FALSE(prompts.on_placed(worker, RequestId(1), kv::ExternalHash(7), 5));
  EXPECT_THAT(ids(), ElementsAre(RequestId(2)));
  EXPECT_FALSE(prompts.on_usage(worker, first, 5)) << "the answer agrees";
  EXPECT_EQ(prompts.on_usage(worker, first, 4), kv::ExternalHash(7));
  EXPECT_FALSE(prompts.on_usage(worker, second, 3));
  EXPECT_TRUE(prompts.on_placed(worker, RequestId(2), kv::ExternalHash(8), 5)) << "the answer was here first";
  prompts.remove(worker, first);
  EXPECT_FALSE(prompts.on_usage(worker, first, 4)) << "it has ended";
  EXPECT_FALSE(prompts.on_placed(worker, RequestId(1), kv::ExternalHash(9), 1));
  prompts.remove(WorkerId(0), other);
  EXPECT_THAT(prompts.unplaced(WorkerId(0)), IsEmpty());
}

class MutexGate final : public PromptsUnderWay::Gate {
 public:
  void enter() override { mutex_.lock(); }
  void leave() override { mutex_.unlock(); }

 private:
  std::mutex mutex_;
};

/// Routing and the index's owner, whose news comes when the test says so.
class EventsElsewhere : public ::testing::Test {
 protected:
  EventsElsewhere() {
    caches_.on_wrong_place([this](WorkerId worker, kv::ExternalHash parent) { asked_.emplace_back(worker, parent); });
  }
  EventNews apply(const kv::KvEvent& event) {
    const kv::KvEventView view = kv::view_of(event);
    return caches_.event_index().apply(worker_, {&view, 1}).news;
  }
  std::uint32_t depth(const BlockKeys& keys) {
    caches_.match(view(keys), fleet_, in_flight_, true, now_, depths_);
    return depths_.blocks[0];
  }
  RequestHandle route(const BlockKeys& keys) {
    (void)depth(keys);
    const RequestHandle handle = requests_.insert({.id = RequestId(++last_request_),
                                                   .worker = worker_,
                                                   .prompt_tokens = kBlocks * kBlockSize + 1,
                                                   .blocks = keys});
    caches_.on_routed(*requests_.find(handle), 0, now_);
    return handle;
  }

  RoutedRequests requests_;
  CacheKnowledge caches_{
      {.model = "m", .block_size = kBlockSize, .workers = 1, .make_gate = [] { return std::make_unique<MutexGate>(); }},
      requests_};
  std::vector<WorkerView> fleet_{1, WorkerView{.available = true, .events_exact = true, .limits = {}}};
  std::vector<std::uint32_t> in_flight_{0};
  CacheDepths depths_{1};
  std::vector<std::pair<WorkerId, kv::ExternalHash>> asked_;
  TimePoint now_{std::chrono::seconds(1)};
  std::uint64_t last_request_ = 0;
  WorkerId worker_{0};
};

TEST_F(EventsElsewhere, LookUpsSeeWhatWasAppliedBeforeRoutingIsTold) {
  const EventNews news = apply(stored(1));
  EXPECT_EQ(news.batches, 1U);
  EXPECT_EQ(depth(prompt(1)), kBlocks);
  EXPECT_EQ(depth(prompt(2)), 0U);
}

TEST_F(EventsElsewhere, ARoutedPromptIsForgottenWithTheNewsOfAClear) {
  fleet_[0].events_exact = false;
  apply(stored(1));
  const RequestHandle computed = route(prompt(1));
  CacheKnowledge::on_computed(*requests_.find(computed));
  route(prompt(2));
  const EventNews news = apply(kv::AllBlocksCleared{});
  EXPECT_EQ(depth(prompt(1)), kBlocks) << "as predicted, until the news comes";
  caches_.on_event_news(worker_, news);
  EXPECT_EQ(depth(prompt(1)), 0U);
  EXPECT_EQ(depth(prompt(2)), kBlocks) << "it has still to be computed";
  caches_.on_usage(*requests_.find(computed), 0);
  EXPECT_EQ(caches_.report(worker_, true).corrections, 0U) << "what it was promised was before";
}

TEST_F(EventsElsewhere, EventsThatWereDueHaveComeOnceTheNewsIsHere) {
  const RequestHandle request = route(prompt(1));
  CacheKnowledge::on_computed(*requests_.find(request));
  const EventNews news = apply(stored(1));
  caches_.on_finished(*requests_.find(request), true, 40, now_);
  caches_.on_event_news(worker_, news);
  now_ += std::chrono::seconds(5);
  caches_.on_progress(worker_, now_);
  EXPECT_FALSE(caches_.report(worker_, true).events_silent);
}

TEST_F(EventsElsewhere, AWrongPlaceIsTakenBackByTheOwner) {
  caches_.on_event_news(worker_, caches_.event_index().reset(worker_));
  const RequestHandle request = route(prompt(1));
  caches_.on_event_news(worker_, apply(stored(1, 12)));
  EXPECT_EQ(depth(prompt(1)), kBlocks);
  EXPECT_EQ(caches_.report(worker_, true).adopted_prefixes, 1U);
  caches_.on_usage(*requests_.find(request), 0);
  ASSERT_THAT(asked_, ElementsAre(Pair(worker_, kv::ExternalHash(1'012))));
  EXPECT_EQ(depth(prompt(1)), kBlocks) << "routing writes nothing itself";
  caches_.event_index().revoke(asked_[0].first, asked_[0].second);
  EXPECT_EQ(depth(prompt(1)), 0U);
  EXPECT_EQ(caches_.report(worker_, true).adopted_prefixes, 0U);
}

TEST_F(EventsElsewhere, AnAnswerThatCameFirstHasTheOwnerTakeThePlaceBackItself) {
  caches_.on_event_news(worker_, caches_.event_index().reset(worker_));
  const RequestHandle request = route(prompt(1));
  caches_.on_usage(*requests_.find(request), 0);
  apply(stored(1, 12));
  EXPECT_THAT(asked_, IsEmpty());
  EXPECT_EQ(caches_.report(worker_, true).adopted_prefixes, 0U);
  EXPECT_EQ(depth(prompt(1)), 0U);
}

// What the two threads share, for ThreadSanitizer to look at; each look-up is of a prompt that is stored whole or not.
TEST_F(EventsElsewhere, RoutingAndTheOwnerGoOnAtTheSameTime) {
  caches_.on_event_news(worker_, caches_.event_index().reset(worker_));
  std::atomic<bool> done = false;
  std::thread owner([&] {
    for (std::uint32_t i = 0; i < 2'000; ++i) {
      apply(stored(i % 10, i % 3 == 0 ? 12 : 0));
      if (i % 97 == 0) apply(kv::AllBlocksCleared{});
      if (i % 501 == 0) caches_.event_index().reset(worker_);
    }
    done = true;
  });
  std::uint32_t requests = 0;
  for (; !done || requests < 100; ++requests) {
    const RequestHandle request = route(prompt(requests % 10));
    caches_.on_usage(*requests_.find(request), requests % 2 == 0 ? 0 : 12 * kBlockSize);
    EXPECT_LE(caches_.report(worker_, true).adopted_prefixes, AdoptedPrefixes::kMaxPrefixes);
    now_ += std::chrono::milliseconds(1);
    caches_.on_finished(*requests_.find(request), true, 1, now_);
    requests_.erase(request);
  }
  owner.join();
  EXPECT_LE(caches_.index().worker_blocks(worker_), 2 * 10 * kBlocks);
}

}  // namespace
}  // namespace kvist::routing::event_index_test

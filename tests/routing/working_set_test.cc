#include "kvist/routing/working_set.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "kvist/base/random.h"

namespace kvist::routing::working_set_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr WorkerId kHome{0};
constexpr WorkerId kOther{1};

/// The first `blocks` blocks of a conversation.
BlockKeys prompt(std::uint64_t conversation, std::size_t blocks) {
  std::vector<kv::BlockHash> hashes;
  for (std::size_t i = 0; i < blocks; ++i) hashes.emplace_back(conversation << 32 | i);
  return std::make_shared<const std::vector<kv::BlockHash>>(std::move(hashes));
}

class WorkingSetTest : public testing::Test {
 protected:
  void ask(const BlockKeys& keys, Duration takes = seconds(1), WorkerId worker = kHome) {
    set_.begin(worker, keys, now_);
    now_ += takes;
    set_.end(worker, keys, true, now_);
  }

  WorkingSet set_{2};
  TimePoint now_{seconds(100)};
};

TEST_F(WorkingSetTest, APromptCountsWhileItIsInFlightAndForAWhileAfterIt) {
  set_.begin(kHome, prompt(1, 10), now_);
  now_ += std::chrono::minutes(5);
  set_.expire(now_);
  EXPECT_EQ(set_.blocks(kHome), 10U) << "however long it takes";
  EXPECT_EQ(set_.blocks(kOther), 0U);
  set_.end(kHome, prompt(1, 10), true, now_);
  set_.expire(now_ + WorkingSet::kShortest - milliseconds(1));
  EXPECT_EQ(set_.blocks(kHome), 10U);
  set_.expire(now_ + WorkingSet::kShortest);
  EXPECT_EQ(set_.blocks(kHome), 0U);
}

TEST_F(WorkingSetTest, WhatIsSharedCountsOnce) {
  set_.begin(kHome, prompt(1, 10), now_);
  set_.begin(kHome, prompt(1, 16), now_);
  EXPECT_EQ(set_.blocks(kHome), 16U);
  EXPECT_EQ(set_.depths(prompt(1, 20))[kHome.value()], 16U);
  EXPECT_EQ(set_.depths(prompt(1, 20))[kOther.value()], 0U);
  EXPECT_EQ(set_.depths(prompt(2, 20))[kHome.value()], 0U);
  set_.end(kHome, prompt(1, 16), false, now_);
  EXPECT_EQ(set_.blocks(kHome), 10U) << "what was not computed is not there";
}

TEST_F(WorkingSetTest, AnEmptyCacheHasNothingOfWhatEnded) {
  ask(prompt(1, 10));
  set_.begin(kHome, prompt(2, 7), now_);
  set_.clear(kHome);
  EXPECT_EQ(set_.blocks(kHome), 7U);
  set_.end(kHome, prompt(2, 7), false, now_);
  EXPECT_EQ(set_.blocks(kHome), 0U);
}

TEST_F(WorkingSetTest, LearnsWhetherPromptsGoOnAndAfterHowLong) {
  for (std::uint64_t conversation = 1; conversation <= 40; ++conversation) {
    for (std::size_t turn = 1; turn <= 20; ++turn) {
      ask(prompt(conversation, 10 + turn));
      now_ += seconds(4);
    }
  }
  EXPECT_NEAR(set_.return_share(), 0.95, 0.04) << "all but the first turn of twenty";
  EXPECT_NEAR(to_seconds(set_.kept()), 1 + 3 * 4, 0.5);
  for (std::uint64_t conversation = 1'000; conversation < 1'400; ++conversation) ask(prompt(conversation, 30));
  EXPECT_LT(set_.return_share(), 0.01) << "nobody goes on any more";
}

TEST_F(WorkingSetTest, WhatIsKeptIsBounded) {
  for (std::size_t turn = 1; turn <= 400; ++turn) {
    ask(prompt(1, 10 + turn));
    now_ += seconds(25);
  }
  EXPECT_EQ(set_.kept(), WorkingSet::kLongest);
  for (std::size_t turn = 1; turn <= 600; ++turn) ask(prompt(2, 10 + turn), milliseconds(10));
  EXPECT_EQ(set_.kept(), WorkingSet::kShortest);
  ask(nullptr);
  ask(prompt(3, 0));
  EXPECT_EQ(set_.depths(nullptr)[kHome.value()], 0U);
}

TEST_F(WorkingSetTest, ManyAtOnceAreForgottenEarly) {
  for (std::uint64_t conversation = 1; conversation <= 25'000; ++conversation)
    ask(prompt(conversation, 2), Duration(0));
  set_.expire(now_);
  EXPECT_EQ(set_.blocks(kHome), 2U * 20'000);
}

TEST_F(WorkingSetTest, FewButLongOnesAreForgottenEarlyToo) {
  set_ = WorkingSet(2, {.prompts = 20'000, .blocks = 1'000});
  for (std::uint64_t conversation = 1; conversation <= 30; ++conversation)
    ask(prompt(conversation, 100), Duration(0), conversation % 2 == 0 ? kHome : kOther);
  set_.expire(now_);
  EXPECT_EQ(set_.blocks(kHome) + set_.blocks(kOther), 1'000U);
  EXPECT_EQ(set_.depths(prompt(20, 100))[kHome.value()], 0U);
  EXPECT_EQ(set_.depths(prompt(30, 100))[kHome.value()], 100U) << "the oldest go";
  const double returns = set_.return_share();
  set_.begin(kHome, prompt(20, 100), now_);
  EXPECT_LE(set_.return_share(), returns) << "what is forgotten is nothing that one could go on with";
  set_.end(kHome, prompt(20, 100), false, now_);
  set_.clear(kOther);
  for (std::uint64_t conversation = 101; conversation <= 105; ++conversation)
    ask(prompt(conversation, 100), Duration(0));
  set_.expire(now_);
  EXPECT_EQ(set_.blocks(kHome), 1'000U) << "what was cleared leaves room: five of before and five new ones";
}

// Beside a model that keeps every prompt by itself.
TEST_F(WorkingSetTest, CountsWhatAModelCounts) {
  const std::uint64_t seed = 20'261'128;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  RandomStream random(seed);
  struct Use {
    WorkerId worker;
    BlockKeys keys;
    std::optional<TimePoint> ended;
  };
  std::vector<Use> uses;
  const auto expected = [&](WorkerId worker) {
    std::set<std::uint64_t> blocks;
    for (const Use& use : uses)
      if (use.worker == worker)
        for (const kv::BlockHash hash : *use.keys) blocks.insert(hash.value());
    return blocks.size();
  };
  // What was forgotten while the time was shorter stays forgotten, so the model forgets before each step too.
  const auto expire = [&] {
    set_.expire(now_);
    std::erase_if(uses, [&](const Use& use) { return use.ended && *use.ended + set_.kept() <= now_; });
  };
  for (int step = 0; step < 3'000; ++step) {
    now_ += milliseconds(random.uniform_int(0, 300));
    expire();
    const auto in_flight = [&] {
      std::vector<std::size_t> found;
      for (std::size_t i = 0; i < uses.size(); ++i)
        if (!uses[i].ended) found.push_back(i);
      return found;
    }();
    if (in_flight.size() < 12 && random.uniform() < 0.55) {
      const WorkerId worker(static_cast<std::uint32_t>(random.uniform_int(0, 1)));
      const BlockKeys keys = prompt(static_cast<std::uint64_t>(random.uniform_int(1, 6)),
                                    static_cast<std::size_t>(random.uniform_int(1, 30)));
      set_.begin(worker, keys, now_);
      uses.push_back({.worker = worker, .keys = keys, .ended = std::nullopt});
    } else if (!in_flight.empty()) {
      const std::size_t i =
          in_flight[static_cast<std::size_t>(random.uniform_int(0, static_cast<std::int64_t>(in_flight.size()) - 1))];
      const bool computed = random.uniform() < 0.8;
      set_.end(uses[i].worker, uses[i].keys, computed, now_);
      if (computed) uses[i].ended = now_;
      if (!computed) uses.erase(uses.begin() + static_cast<std::ptrdiff_t>(i));
    }
    expire();
    ASSERT_EQ(set_.blocks(kHome), expected(kHome)) << "step " << step;
    ASSERT_EQ(set_.blocks(kOther), expected(kOther)) << "step " << step;
  }
}

}  // namespace
}  // namespace kvist::routing::working_set_test

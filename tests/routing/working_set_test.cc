#include "kvist/routing/working_set.h"

#include <gtest/gtest.h>

#include <algorithm>
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
  void begin(WorkerId worker, const BlockKeys& keys) {
    (void)set_.begin(worker, keys, now_);
    in_flight_.emplace_back(worker, keys);
  }
  void end(WorkerId worker, const BlockKeys& keys, bool computed) {
    const auto found = std::ranges::find_if(in_flight_, [&](const auto& one) {
      return one.first == worker && std::ranges::equal(view(one.second), view(keys));
    });
    ASSERT_NE(found, in_flight_.end());
    in_flight_.erase(found);
    set_.end(worker, keys, computed, now_);
  }
  void ask(const BlockKeys& keys, Duration takes = seconds(1), WorkerId worker = kHome) {
    begin(worker, keys);
    now_ += takes;
    end(worker, keys, true);
  }
  WorkingSet& open() {
    set_.open(now_, [this](auto visit) {
      for (const auto& [worker, keys] : in_flight_) visit(worker, keys);
    });
    return set_;
  }
  std::uint64_t blocks(WorkerId worker) { return open().blocks(worker); }
  std::uint32_t depth(const BlockKeys& keys, WorkerId worker) { return open().depths(keys)[worker.value()]; }

  WorkingSet set_{2};
  TimePoint now_{seconds(100)};

 private:
  std::vector<std::pair<WorkerId, BlockKeys>> in_flight_;
};

/// The same, asked for from the beginning on, and only when something is to be known.
class OpenWorkingSetTest : public WorkingSetTest, public testing::WithParamInterface<bool> {
 protected:
  void SetUp() override {
    if (GetParam()) open();
  }
};
INSTANTIATE_TEST_SUITE_P(Asked, OpenWorkingSetTest, testing::Bool(),
                         [](const auto& each) { return each.param ? "Always" : "Late"; });

TEST_P(OpenWorkingSetTest, APromptCountsWhileItIsInFlightAndForAWhileAfterIt) {
  begin(kHome, prompt(1, 10));
  now_ += std::chrono::minutes(5);
  EXPECT_EQ(blocks(kHome), 10U) << "however long it takes";
  EXPECT_EQ(blocks(kOther), 0U);
  end(kHome, prompt(1, 10), true);
  now_ += RecentPrompts::kShortest - milliseconds(1);
  EXPECT_EQ(blocks(kHome), 10U);
  now_ += milliseconds(1);
  EXPECT_EQ(blocks(kHome), 0U);
}

TEST_P(OpenWorkingSetTest, WhatIsSharedCountsOnce) {
  begin(kHome, prompt(1, 10));
  begin(kHome, prompt(1, 16));
  EXPECT_EQ(blocks(kHome), 16U);
  EXPECT_EQ(depth(prompt(1, 20), kHome), 16U);
  EXPECT_EQ(depth(prompt(1, 20), kOther), 0U);
  EXPECT_EQ(depth(prompt(2, 20), kHome), 0U);
  EXPECT_EQ(depth(nullptr, kHome), 0U);
  end(kHome, prompt(1, 16), false);
  EXPECT_EQ(blocks(kHome), 10U) << "what was not computed is not there";
}

TEST_P(OpenWorkingSetTest, AnEmptyCacheHasNothingOfWhatEnded) {
  ask(prompt(1, 10));
  begin(kHome, prompt(2, 7));
  set_.clear(kHome);
  EXPECT_EQ(blocks(kHome), 7U);
  end(kHome, prompt(2, 7), true);
  EXPECT_EQ(blocks(kHome), 7U) << "it is there now";
  set_.clear(kHome);
  EXPECT_EQ(blocks(kHome), 0U);
}

TEST_F(WorkingSetTest, ByWorkerItIsKeptOnlyWhileSomebodyAsks) {
  ask(prompt(1, 10));
  EXPECT_FALSE(set_.is_open());
  EXPECT_EQ(blocks(kHome), 10U);
  begin(kHome, prompt(2, 7));
  EXPECT_TRUE(set_.is_open());
  now_ += WorkingSet::kUnasked + milliseconds(1);
  set_.expire(now_);
  EXPECT_FALSE(set_.is_open());
  EXPECT_EQ(blocks(kHome), 7U);
}

TEST_F(WorkingSetTest, TellsHowMuchOfAPromptIsKnown) {
  EXPECT_EQ(set_.begin(kHome, prompt(1, 10), now_), 0U);
  EXPECT_EQ(set_.begin(kOther, prompt(1, 16), now_), 10U) << "from another worker, too";
  set_.end(kHome, prompt(1, 10), true, now_);
  set_.end(kOther, prompt(1, 16), false, now_);
  EXPECT_EQ(set_.begin(kHome, prompt(1, 20), now_), 10U);
  now_ += RecentPrompts::kLongest;
  EXPECT_EQ(set_.begin(kHome, prompt(1, 30), now_), 20U) << "it is still in flight";
  set_.end(kHome, prompt(1, 20), false, now_);
  set_.end(kHome, prompt(1, 30), false, now_);
  EXPECT_EQ(set_.begin(kHome, prompt(1, 30), now_), 0U);
}

TEST_F(WorkingSetTest, LearnsWhetherPromptsGoOnAndAfterHowLong) {
  for (std::uint64_t conversation = 1; conversation <= 40; ++conversation) {
    for (std::size_t turn = 1; turn <= 20; ++turn) {
      ask(prompt(conversation, 10 + turn));
      now_ += seconds(4);
    }
  }
  EXPECT_NEAR(set_.recent().return_share(), 0.95, 0.04) << "all but the first turn of twenty";
  EXPECT_NEAR(to_seconds(set_.recent().kept()), 1 + 3 * 4, 0.5);
  for (std::uint64_t conversation = 1'000; conversation < 1'400; ++conversation) ask(prompt(conversation, 30));
  EXPECT_LT(set_.recent().return_share(), 0.01) << "nobody goes on any more";
}

TEST_F(WorkingSetTest, WhatIsKeptIsBounded) {
  for (std::size_t turn = 1; turn <= 400; ++turn) {
    ask(prompt(1, 10 + turn));
    now_ += seconds(25);
  }
  EXPECT_EQ(set_.recent().kept(), RecentPrompts::kLongest);
  for (std::size_t turn = 1; turn <= 600; ++turn) ask(prompt(2, 10 + turn), milliseconds(10));
  EXPECT_EQ(set_.recent().kept(), RecentPrompts::kShortest);
  ask(nullptr);
  ask(prompt(3, 0));
}

TEST_P(OpenWorkingSetTest, ManyAtOnceAreForgottenEarly) {
  for (std::uint64_t conversation = 1; conversation <= 25'000; ++conversation)
    ask(prompt(conversation, 2), Duration(0));
  EXPECT_EQ(blocks(kHome), 2U * 20'000);
}

TEST_P(OpenWorkingSetTest, FewButLongOnesAreForgottenEarlyToo) {
  set_ = WorkingSet(2, {.prompts = 20'000, .blocks = 1'000});
  SetUp();
  for (std::uint64_t conversation = 1; conversation <= 30; ++conversation)
    ask(prompt(conversation, 100), Duration(0), conversation % 2 == 0 ? kHome : kOther);
  EXPECT_EQ(blocks(kHome) + blocks(kOther), 1'000U);
  EXPECT_EQ(depth(prompt(20, 100), kHome), 0U);
  EXPECT_EQ(depth(prompt(30, 100), kHome), 100U) << "the oldest go";
  const double returns = set_.recent().return_share();
  begin(kHome, prompt(20, 100));
  EXPECT_LE(set_.recent().return_share(), returns) << "what is forgotten is nothing that one could go on with";
  end(kHome, prompt(20, 100), false);
}

// Beside a model that keeps every prompt by itself.
TEST_P(OpenWorkingSetTest, CountsWhatAModelCounts) {
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
    open();
    std::erase_if(uses, [&](const Use& use) { return use.ended && *use.ended + set_.recent().kept() <= now_; });
  };
  constexpr int kSteps = 3'000;
  for (int step = 0; step < kSteps; ++step) {
    now_ += milliseconds(random.uniform_int(0, 300));
    if (GetParam()) expire();
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
      begin(worker, keys);
      uses.push_back({.worker = worker, .keys = keys, .ended = std::nullopt});
    } else if (!in_flight.empty()) {
      const std::size_t i =
          in_flight[static_cast<std::size_t>(random.uniform_int(0, static_cast<std::int64_t>(in_flight.size()) - 1))];
      const bool computed = random.uniform() < 0.8;
      end(uses[i].worker, uses[i].keys, computed);
      if (computed) uses[i].ended = now_;
      if (!computed) uses.erase(uses.begin() + static_cast<std::ptrdiff_t>(i));
    }
    if (!GetParam() && step + 1 < kSteps) continue;
    expire();
    ASSERT_EQ(blocks(kHome), expected(kHome)) << "step " << step;
    ASSERT_EQ(blocks(kOther), expected(kOther)) << "step " << step;
  }
}

}  // namespace
}  // namespace kvist::routing::working_set_test

#include "kvist/routing/prefix_use.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "kvist/base/random.h"

namespace kvist::routing::prefix_use_test {
namespace {

using Prompt = std::vector<kv::BlockHash>;

/// The same, counted block by block.
class Naive {
 public:
  std::uint64_t add(std::uint32_t worker, const Prompt& prompt) {
    std::uint64_t unshared = 0;
    for (const kv::BlockHash block : prompt) unshared += ++users_[{worker, block}] == 1 ? 1 : 0;
    return unshared;
  }
  std::uint64_t remove(std::uint32_t worker, const Prompt& prompt) {
    std::uint64_t unshared = 0;
    for (const kv::BlockHash block : prompt) unshared += --users_[{worker, block}] == 0 ? 1 : 0;
    return unshared;
  }
  std::uint32_t depth(std::uint32_t worker, const Prompt& prompt) const {
    std::uint32_t depth = 0;
    for (const kv::BlockHash block : prompt) {
      const auto found = users_.find({worker, block});
      if (found == users_.end() || found->second == 0) break;
      ++depth;
    }
    return depth;
  }

 private:
  std::map<std::pair<std::uint32_t, kv::BlockHash>, std::uint64_t> users_;
};

/// A prompt over two tokens per block: many share a beginning, some all.
Prompt random_prompt(RandomStream& random) {
  Prompt prompt;
  kv::BlockHash parent(1);
  const std::int64_t blocks = random.uniform_int(0, 12);
  for (std::int64_t i = 0; i < blocks; ++i) {
    const std::vector<TokenId> tokens{TokenId(static_cast<std::uint32_t>(random.uniform_int(0, 5) == 0 ? 1 : 0))};
    parent = kv::chain_hash(parent, tokens);
    prompt.push_back(parent);
  }
  return prompt;
}

TEST(PrefixUse, CountsAsBlockByBlock) {
  constexpr std::uint32_t kWorkers = 70;  // more than one word of a set
  for (const std::uint64_t seed : {1U, 2U, 3U, 4U, 5U}) {
    SCOPED_TRACE(seed);
    RandomStream random(seed);
    PrefixUse use;
    Naive naive;
    struct Booking {
      std::uint32_t worker = 0;
      BlockKeys keys;
      std::size_t blocks = 0;
    };
    std::vector<Booking> booked;
    const auto first = [](const Booking& booking) {
      const std::size_t blocks = std::min(booking.blocks, booking.keys->size());
      return Prompt(booking.keys->begin(), booking.keys->begin() + static_cast<std::ptrdiff_t>(blocks));
    };
    for (int step = 0; step < 2'000; ++step) {
      if (booked.empty() || random.uniform_int(0, 99) < (step < 1'500 ? 55 : 20)) {
        const std::uint32_t worker =
            random.uniform_int(0, 1) == 0 ? 0 : static_cast<std::uint32_t>(random.uniform_int(0, kWorkers - 1));
        const std::size_t blocks =
            random.uniform_int(0, 1) == 0 ? PrefixUse::kAll : static_cast<std::size_t>(random.uniform_int(0, 8));
        booked.emplace_back(worker, std::make_shared<const Prompt>(random_prompt(random)), blocks);
        ASSERT_EQ(use.add(WorkerId(worker), booked.back().keys, blocks), naive.add(worker, first(booked.back())));
      } else {
        const auto i = static_cast<std::size_t>(random.uniform_int(0, static_cast<std::int64_t>(booked.size()) - 1));
        std::swap(booked[i], booked.back());
        const Booking booking = std::move(booked.back());
        booked.pop_back();
        ASSERT_EQ(use.remove(WorkerId(booking.worker), booking.keys, booking.blocks),
                  naive.remove(booking.worker, first(booking)));
      }
      const Prompt asked = random_prompt(random);
      std::vector<std::uint32_t> depths(kWorkers);
      use.match(asked, depths);
      for (std::uint32_t worker = 0; worker < kWorkers; ++worker) {
        ASSERT_EQ(depths[worker], naive.depth(worker, asked)) << worker;
      }
    }
  }
}

TEST(PrefixUse, CountsThoseThatWait) {
  struct Booking {
    WorkerId worker;
    BlockKeys keys;
    bool waits = true;
  };
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    SCOPED_TRACE(seed);
    RandomStream random(seed);
    PrefixUse use;
    std::vector<Booking> booked;
    const auto any = [&] { return static_cast<std::size_t>(random.uniform_int(0, std::ssize(booked) - 1)); };
    for (int step = 0; step < 2'000; ++step) {
      const std::int64_t what = random.uniform_int(0, 99);
      if (booked.empty() || what < (step < 1'500 ? 45 : 10)) {
        const WorkerId worker(static_cast<std::uint32_t>(random.uniform_int(0, 2)));
        booked.push_back({.worker = worker, .keys = std::make_shared<const Prompt>(random_prompt(random))});
        use.add_waiting(worker, booked.back().keys);
      } else if (Booking& one = booked[any()]; one.waits) {
        use.end_wait(one.keys);
        one.waits = false;
      } else {
        std::swap(one, booked.back());
        use.remove(booked.back().worker, booked.back().keys);
        booked.pop_back();
      }
      const Prompt asked = random_prompt(random);
      const auto found = use.deepest_shared(asked, 2);
      const auto begins_alike = [&](const Booking& booking) {
        return booking.keys->size() >= found.blocks &&
               std::equal(asked.begin(), asked.begin() + found.blocks, booking.keys->begin());
      };
      if (found.blocks == 0) continue;
      ASSERT_EQ(found.prompts, std::ranges::count_if(booked, begins_alike));
      ASSERT_EQ(found.waiting,
                std::ranges::count_if(booked, [&](const Booking& one) { return one.waits && begins_alike(one); }));
    }
  }
}

BlockKeys keys(std::initializer_list<std::uint64_t> hashes) {
  Prompt prompt;
  for (const std::uint64_t hash : hashes) prompt.emplace_back(hash);
  return std::make_shared<const Prompt>(std::move(prompt));
}

TEST(PrefixUse, LookUpsSideBySideFindWhatEachFindsAlone) {
  constexpr std::uint32_t kWorkers = 70;
  RandomStream random(7);
  std::vector<PrefixUse> trees(PrefixUse::kMostLookUps);
  for (PrefixUse& tree : trees) {
    for (std::int64_t i = random.uniform_int(0, 200); i > 0; --i)
      tree.add(WorkerId(static_cast<std::uint32_t>(random.uniform_int(0, kWorkers - 1))),
               std::make_shared<const Prompt>(random_prompt(random)));
  }
  for (int i = 0; i < 500; ++i) {
    const Prompt asked = i == 0 ? Prompt() : random_prompt(random);
    std::vector<std::vector<std::uint32_t>> alone, together;
    std::vector<PrefixUse::LookUp> look_ups;
    alone.resize(trees.size(), std::vector<std::uint32_t>(kWorkers, 99));
    together = alone;
    for (std::size_t t = 0; t < trees.size(); ++t) {
      trees[t].match(asked, alone[t]);
      look_ups.push_back({.prefixes = &trees[t], .depths = together[t]});
    }
    PrefixUse::match(asked, look_ups);
    ASSERT_EQ(together, alone);
  }
}

// Two 32-bit token ids can be chosen so that the hash of their block does not depend on what is before it.
TEST(PrefixUse, PromptsWhoseHashesMeetAgainStayApart) {
  PrefixUse use;
  const WorkerId worker(0);
  const BlockKeys one = keys({1, 2, 9, 10, 11});
  const BlockKeys two = keys({1, 3, 9, 10, 11});
  const BlockKeys three = keys({1, 4});
  EXPECT_EQ(use.add(worker, one), 5U);
  EXPECT_EQ(use.add(worker, two), 4U);
  EXPECT_EQ(use.add(worker, three), 1U);
  EXPECT_EQ(use.remove(worker, two), 4U);
  EXPECT_EQ(use.remove(worker, three), 1U);
  std::vector<std::uint32_t> depths(1);
  use.match(view(one), depths);
  EXPECT_EQ(depths[0], 5U);
  EXPECT_EQ(use.remove(worker, one), 5U);
}

TEST(PrefixUse, ManyThatPartedFromALongPromptLeaveNothingBehind) {
  PrefixUse use;
  const WorkerId worker(0);
  Prompt shared;
  for (std::uint64_t i = 0; i < 400; ++i) shared.emplace_back(i);
  const auto kept = std::make_shared<const Prompt>(shared);
  use.add(worker, kept);
  const std::size_t alone = use.nodes();
  for (std::uint64_t i = 1; i < 400; ++i) {
    Prompt parted(shared.begin(), shared.begin() + static_cast<std::ptrdiff_t>(i));
    parted.emplace_back(1'000 + i);
    const auto other = std::make_shared<const Prompt>(std::move(parted));
    use.add(worker, other);
    EXPECT_EQ(use.nodes(), alone + 2);
    use.remove(worker, other);
    use.add(worker, kept, i);
    use.remove(worker, kept, i);
    ASSERT_EQ(use.nodes(), alone);
  }
}

TEST(PrefixUse, APromptThatHasLeftIsNotKept) {
  const auto of = [](std::uint64_t blocks) {
    std::vector<kv::BlockHash> prompt;
    for (std::uint64_t i = 1; i <= blocks; ++i) prompt.emplace_back(i);
    return std::make_shared<const std::vector<kv::BlockHash>>(std::move(prompt));
  };
  for (const bool long_one_first : {true, false}) {
    PrefixUse use;
    BlockKeys large = of(10'000);
    const BlockKeys small = of(10);
    use.add(WorkerId(0), long_one_first ? large : small);
    use.add(WorkerId(0), long_one_first ? small : large);
    use.remove(WorkerId(0), large);
    const std::weak_ptr<const std::vector<kv::BlockHash>> kept = std::exchange(large, nullptr);
    EXPECT_TRUE(kept.expired()) << "the one that is left has 10 blocks";
    std::vector<std::uint32_t> depths(1);
    use.match(*small, depths);
    EXPECT_EQ(depths[0], 10U);
    EXPECT_EQ(use.remove(WorkerId(0), small), 10U);
  }
}

}  // namespace
}  // namespace kvist::routing::prefix_use_test

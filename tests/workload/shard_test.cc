#include "kvist/workload/shard.h"

#include <gtest/gtest.h>

#include <map>

#include "kvist/workload/load_driver.h"

namespace kvist::workload::shard_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr TimePoint kStart{seconds(50)};

struct Started {
  TimePoint intended;
  std::string text;
  bool operator==(const Started&) const = default;
};

/// Polls at every wake-up up to `until`; conversations of one turn end `answer` later.
std::map<std::uint64_t, Started> drive(LoadDriver& driver, TimePoint until, Duration answer) {
  std::map<std::uint64_t, Started> started;
  std::multimap<TimePoint, ConversationId> ends;
  const auto take = [&](const std::vector<StartTurn>& turns) {
    for (const StartTurn& turn : turns) {
      EXPECT_TRUE(started.emplace(turn.conversation.value(), Started{turn.intended, turn.messages[0].content}).second);
      ends.emplace(turn.intended + answer, turn.conversation);
    }
  };
  while (true) {
    const auto wakeup = driver.next_wakeup();
    const bool ends_first = !ends.empty() && (!wakeup || ends.begin()->first <= *wakeup);
    const TimePoint next = ends_first ? ends.begin()->first : wakeup.value_or(TimePoint::max());
    if (next > until) return started;
    if (ends_first) {
      const ConversationId conversation = ends.begin()->second;
      ends.erase(ends.begin());
      take(driver.on_turn_finished(conversation, "r", TurnOutcome::kSucceeded, next));
    } else {
      take(driver.poll(next));
    }
  }
}

spec::WorkloadSpec workload_of(spec::ArrivalKind kind) {
  spec::WorkloadSpec spec;
  spec.starters = 0;
  spec.starter_tokens_min = 30;
  spec.starter_tokens_max = 60;
  spec.turns_min = spec.turns_max = 1;
  spec.arrivals.kind = kind;
  spec.arrivals.rate_per_s = 40;
  spec.arrivals.max_conversations = 10'000;
  return spec;
}

std::map<std::uint64_t, Started> all_parts(const spec::WorkloadSpec& spec, std::uint32_t level, std::uint32_t parts,
                                           Duration answer, const std::optional<LoadChange>& change = {}) {
  std::map<std::uint64_t, Started> all;
  const LoadTexts texts = make_texts(spec, 7, nullptr, nullptr);
  for (std::uint32_t index = 0; index < parts; ++index) {
    LoadDriver driver(spec, level, 7, kStart, texts, {}, {.index = index, .count = parts});
    std::map<std::uint64_t, Started> own;
    if (change) {
      own = drive(driver, kStart + seconds(5), Duration(1));
      EXPECT_TRUE(driver.change(*change, kStart + seconds(5)));
    }
    own.merge(drive(driver, kStart + seconds(20), answer));
    for (const auto& [id, started] : own) EXPECT_TRUE((Shard{.index = index, .count = parts}.has(id))) << id;
    all.merge(own);
  }
  return all;
}

TEST(Shard, SharesOfANumberAreTheNumber) {
  for (const std::uint32_t count : {1U, 2U, 3U, 7U}) {
    for (const std::uint32_t n : {0U, 1U, 7U, 20U, 23U}) {
      std::uint32_t sum = 0;
      for (std::uint32_t index = 0; index < count; ++index) sum += Shard{.index = index, .count = count}.share(n);
      EXPECT_EQ(sum, n);
    }
  }
}

TEST(Shard, TheScheduleOfAnOpenLoopIsTheSameWhateverTheNumberOfParts) {
  using spec::ArrivalKind;
  for (const ArrivalKind kind :
       {ArrivalKind::kPoisson, ArrivalKind::kBursty, ArrivalKind::kConstant, ArrivalKind::kBursts}) {
    SCOPED_TRACE(static_cast<int>(kind));
    spec::WorkloadSpec spec = workload_of(kind);
    spec.arrivals.profile = {{.at = seconds(0), .share = 0.5}, {.at = seconds(10), .share = 2}};
    const auto whole = all_parts(spec, 1, 1, seconds(1));
    EXPECT_GT(whole.size(), 300U);
    for (const std::uint32_t parts : {2U, 3U, 5U}) EXPECT_EQ(all_parts(spec, 1, parts, seconds(1)), whole) << parts;
    const LoadChange change{.rate = 90};
    const auto changed = all_parts(spec, 1, 1, seconds(1), change);
    EXPECT_GT(changed.size(), whole.size());
    for (const std::uint32_t parts : {2U, 3U}) EXPECT_EQ(all_parts(spec, 1, parts, seconds(1), change), changed);
  }
}

TEST(Shard, StartsOfAClosedLoopKeepTheirSlotsAndTheirNumber) {
  spec::WorkloadSpec spec = workload_of(spec::ArrivalKind::kClosed);
  spec.target_rps = 16;  // a binary fraction, so that every sum is exact
  const auto whole = all_parts(spec, 400, 1, seconds(100));
  ASSERT_EQ(whole.size(), 20 * 16 + 1U);
  for (const std::uint32_t parts : {2U, 4U}) EXPECT_EQ(all_parts(spec, 400, parts, seconds(100)), whole) << parts;
  spec.target_rps = 0;
  for (const std::uint32_t parts : {1U, 3U, 4U}) {
    EXPECT_EQ(all_parts(spec, 10, parts, seconds(100)).size(), 10U);
  }
}

TEST(Shard, OfPlacesThatAreLimitedEachPartHasItsShare) {
  spec::WorkloadSpec spec = workload_of(spec::ArrivalKind::kPoisson);
  spec.arrivals.max_conversations = 7;
  EXPECT_EQ(all_parts(spec, 1, 1, seconds(1'000)).size(), 7U);
  EXPECT_EQ(all_parts(spec, 1, 3, seconds(1'000)).size(), 7U);
  LoadDriver part(spec, 1, 7, kStart, make_texts(spec, 7, nullptr, nullptr), {}, {.index = 1, .count = 3});
  EXPECT_EQ(part.change({.max_in_flight = 2}, kStart).error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace kvist::workload::shard_test

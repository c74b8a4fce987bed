#include "kvist/dispatch/kinetic_tournament.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "kvist/base/random.h"

namespace kvist::dispatch::kinetic_tournament_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Line = KineticTournament::Line;

TEST(KineticTournamentTest, LinesThatCrossChangeTheirOrder) {
  KineticTournament lines;
  EXPECT_TRUE(lines.highest(3, TimePoint(seconds(0))).empty());
  lines.add({.key = 1, .zero = TimePoint(seconds(0)), .ms_per_unit = 10});
  const auto steep = lines.add({.key = 2, .zero = TimePoint(seconds(9)), .ms_per_unit = 1});
  EXPECT_EQ(lines.highest(3, TimePoint(milliseconds(9'999))), (std::vector<std::uint64_t>{1, 2}));
  EXPECT_EQ(lines.highest(3, TimePoint(milliseconds(10'000))), (std::vector<std::uint64_t>{1, 2})) << "equally high";
  EXPECT_EQ(lines.highest(3, TimePoint(milliseconds(10'001))), (std::vector<std::uint64_t>{2, 1}));
  EXPECT_EQ(lines.highest(1, TimePoint(milliseconds(10'001))), (std::vector<std::uint64_t>{2}));
  lines.set(steep, {.key = 2, .zero = TimePoint(seconds(9)), .ms_per_unit = 100});
  EXPECT_EQ(lines.highest(3, TimePoint(milliseconds(10'001))), (std::vector<std::uint64_t>{1, 2}));
  lines.remove(steep);
  EXPECT_EQ(lines.highest(3, TimePoint(seconds(11))), (std::vector<std::uint64_t>{1}));
}

// Beside a model that sorts all lines at each step.
TEST(KineticTournamentTest, TheOrderIsThatOfAllLinesSorted) {
  const std::uint64_t seed = 20'261'129;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  RandomStream random(seed);
  KineticTournament lines;
  std::map<std::uint64_t, std::pair<KineticTournament::Seat, Line>> model;
  TimePoint now{seconds(100)};
  std::uint64_t last = 0;
  const auto any = [&] { return std::next(model.begin(), random.uniform_int(0, std::ssize(model) - 1)); };
  const auto draw = [&](std::uint64_t key) {
    return Line{.key = key,
                .zero = now - milliseconds(random.uniform_int(0, 40'000)),
                .ms_per_unit = static_cast<double>(random.uniform_int(1, 50)) * 100};
  };
  for (int step = 0; step < 5'000; ++step) {
    const double what = random.uniform();
    const bool grows = step % 1'000 < 700;
    if (what < (grows ? 0.5 : 0.2)) {
      const Line line = draw(++last);
      model[last] = {lines.add(line), line};
    } else if (what < 0.6 && !model.empty()) {
      const auto one = any();
      one->second.second = draw(one->first);
      lines.set(one->second.first, one->second.second);
    } else if (!model.empty()) {
      const auto one = any();
      lines.remove(one->second.first);
      model.erase(one);
    }
    now += milliseconds(random.uniform_int(0, 500));
    std::vector<std::pair<double, std::uint64_t>> expected;
    for (const auto& [key, one] : model)
      expected.emplace_back(-to_milliseconds(now - one.second.zero) / one.second.ms_per_unit, key);
    std::ranges::sort(expected);
    const std::size_t count = step % 10 == 0 ? model.size() : std::min<std::size_t>(12, model.size());
    const std::vector<std::uint64_t> highest = lines.highest(count, now);
    ASSERT_EQ(highest.size(), count);
    for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(highest[i], expected[i].second) << "step " << step << ", " << i;
  }
}

TEST(KineticTournamentTest, ALookAtManyComparesFew) {
  RandomStream random(7);
  KineticTournament lines;
  TimePoint now{seconds(100)};
  std::vector<KineticTournament::Seat> seats;
  const auto line = [&](std::uint64_t key) {
    return Line{.key = key,
                .zero = TimePoint(milliseconds(10 * key)),
                .ms_per_unit = static_cast<double>(random.uniform_int(100, 10'000))};
  };
  for (std::uint64_t key = 0; key < 4'096; ++key) seats.push_back(lines.add(line(key)));
  (void)lines.highest(12, now);
  const std::uint64_t before = lines.comparisons();
  constexpr int kLooks = 1'000;
  for (int look = 0; look < kLooks; ++look) {
    now += milliseconds(10);
    for (int i = 0; i < 16; ++i) {
      const auto key = static_cast<std::uint64_t>(random.uniform_int(0, 4'095));
      lines.set(seats[key], line(key));
    }
    (void)lines.highest(12, now);
  }
  EXPECT_LT((lines.comparisons() - before) / kLooks, 1'000U) << "of 4,096";
}

}  // namespace
}  // namespace kvist::dispatch::kinetic_tournament_test

#include "kvist/routing/session_table.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <list>
#include <map>

#include "kvist/base/random.h"

namespace kvist::routing::session_table_test {
namespace {

class SessionTableTest : public ::testing::Test {
 protected:
  SessionTable table_{{.ttl = std::chrono::seconds(10), .max_sessions = 3}};
  TimePoint now_{std::chrono::seconds(100)};
};

TEST_F(SessionTableTest, RemembersTheLastWorkerForTheTimeToLive) {
  EXPECT_EQ(table_.find(1, now_), std::nullopt);
  table_.put(1, WorkerId(4), now_);
  EXPECT_EQ(table_.find(1, now_ + std::chrono::seconds(10)), WorkerId(4));
  table_.put(1, WorkerId(5), now_ + std::chrono::seconds(10));
  EXPECT_EQ(table_.find(1, now_ + std::chrono::seconds(20)), WorkerId(5)) << "each request begins the time anew";
  EXPECT_EQ(table_.find(1, now_ + std::chrono::milliseconds(20'001)), std::nullopt);
  EXPECT_EQ(table_.size(), 0U);
}

TEST_F(SessionTableTest, TheOneThatWasIdleLongestMakesRoom) {
  for (std::uint64_t session = 1; session <= 3; ++session)
    table_.put(session, WorkerId(1), now_ + std::chrono::milliseconds(session));
  table_.put(1, WorkerId(2), now_ + std::chrono::milliseconds(4));
  table_.put(4, WorkerId(3), now_ + std::chrono::milliseconds(5));
  EXPECT_EQ(table_.size(), 3U);
  EXPECT_EQ(table_.displaced(), 1U);
  EXPECT_EQ(table_.find(2, now_), std::nullopt);
  EXPECT_EQ(table_.find(1, now_), WorkerId(2));
  EXPECT_EQ(table_.find(4, now_), WorkerId(3));
}

TEST_F(SessionTableTest, AWorkerThatIsGoneIsForgotten) {
  table_.put(1, WorkerId(1), now_);
  table_.put(2, WorkerId(2), now_);
  table_.put(3, WorkerId(1), now_);
  table_.forget(WorkerId(1));
  EXPECT_EQ(table_.size(), 1U);
  EXPECT_EQ(table_.find(1, now_), std::nullopt);
  EXPECT_EQ(table_.find(2, now_), WorkerId(2));
  table_.put(5, WorkerId(1), now_);
  EXPECT_EQ(table_.find(5, now_), WorkerId(1));
}

TEST(SessionTableProperty, IsAListInTheOrderOfUse) {
  constexpr std::size_t kMost = 8;
  constexpr Duration kTtl = std::chrono::seconds(20);
  struct Known {
    std::uint64_t session;
    WorkerId worker;
    TimePoint used;
  };
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    RandomStream random(seed);
    SessionTable table({.ttl = kTtl, .max_sessions = kMost});
    std::list<Known> model;  // the one that was idle longest first
    TimePoint now{};
    for (int step = 0; step < 500; ++step) {
      now += std::chrono::seconds(random.uniform_int(0, 4));
      std::erase_if(model, [&](const Known& known) { return now - known.used > kTtl; });
      const auto session = static_cast<std::uint64_t>(random.uniform_int(1, 15));
      const WorkerId worker(static_cast<std::uint32_t>(random.uniform_int(0, 3)));
      const auto is_session = [&](const Known& known) { return known.session == session; };
      const std::int64_t kind = random.uniform_int(0, 9);
      if (kind == 0) {
        table.forget(worker);
        std::erase_if(model, [&](const Known& known) { return known.worker == worker; });
      } else if (kind < 6) {
        table.put(session, worker, now);
        std::erase_if(model, is_session);
        if (model.size() == kMost) model.pop_front();
        model.push_back({.session = session, .worker = worker, .used = now});
      }
      const auto found = std::ranges::find_if(model, is_session);
      const auto expected = found == model.end() ? std::nullopt : std::optional(found->worker);
      ASSERT_EQ(table.find(session, now), expected) << step;
      ASSERT_EQ(table.size(), model.size()) << step;
    }
  }
}

}  // namespace
}  // namespace kvist::routing::session_table_test

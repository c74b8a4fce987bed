#include <gmock/gmock.h>

#include <string>
#include <string_view>

#include "results/schema_1.h"
#include "results/store_fixture.h"

namespace kvist::results::store_migration_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

constexpr std::string_view kDropTablesOfSchema7 = "DROP TABLE load_agent_shares; DROP TABLE load_agents;";
constexpr std::string_view kDropTablesOfSchema6 =
    "DROP TABLE load_agent_shares; DROP TABLE load_agents; DROP TABLE run_sources;";
constexpr std::string_view kDropTablesOfSchema5 =
    "DROP TABLE load_agent_shares; DROP TABLE load_agents; DROP TABLE run_sources; DROP TABLE client_pauses;";
constexpr std::string_view kDropTablesOfSchema4 =
    "DROP TABLE turn_sessions; DROP TABLE client_certificates; DROP TABLE client_shares; DROP TABLE client_pauses; "
    "DROP TABLE run_sources; DROP TABLE load_agent_shares; DROP TABLE load_agents;";

class StoreMigrationTest : public StoreTest {
 protected:
  void SetUp() override {
    StoreTest::SetUp();
    tamper(path(), kDatabaseOfSchema1);
  }
};

void expect_the_kv_level(const LevelRecord& kv) {
  EXPECT_EQ(kv.mode, spec::RoutingMode::kKv);
  EXPECT_EQ(kv.concurrency, 40U);
  EXPECT_EQ(kv.repetition, 0U);
  EXPECT_EQ(kv.seed, std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(kv.started_utc, "2026-01-01T00:10:00Z");
  EXPECT_EQ(kv.measure_to, at(30));
  ASSERT_EQ(kv.snapshots.size(), 1U);
  EXPECT_EQ(kv.snapshots[0].ttft_p50_ms, 1.5);
  EXPECT_EQ(kv.snapshots[0].latency_p95_ms, 9.5);
  EXPECT_EQ(kv.snapshots[0].in_flight, 40U);
  ASSERT_EQ(kv.turns.size(), 2U);
  EXPECT_EQ(kv.turns[0].conversation, ConversationId(3));
  EXPECT_EQ(kv.turns[0].prompt_tokens, 100U);
  EXPECT_THAT(kv.turns[0].gaps_ms, ElementsAre(1.0F, 2.0F));
  EXPECT_EQ(kv.turns[1].error, "HTTP 500");
  EXPECT_EQ(kv.turns[1].predicted_cached_tokens, 32U);
  ASSERT_EQ(kv.workers.size(), 1U);
  EXPECT_EQ(kv.workers[0].restarts, 8U);
  EXPECT_EQ(kv.workers[0].waiting_max, 2.0);
  EXPECT_TRUE(kv.timelines.empty());
  EXPECT_EQ(kv.client.send_delay_p99_ms, 0.125);
  EXPECT_THAT(kv.remarks, ElementsAre("first", "second"));
}

TEST_F(StoreMigrationTest, AFileOfSchema1IsReadAndWritten) {
  for (int opening = 0; opening < 2; ++opening) {  // the first one migrates
    auto store = Store::open(path());
    ASSERT_TRUE(store.has_value()) << store.error().message;
    EXPECT_THAT((*store)->runs().value(), ElementsAre(1, 2));
    const auto run = (*store)->load_run(1);
    ASSERT_TRUE(run.has_value()) << run.error().message;
    EXPECT_EQ(run->name, "old");
    EXPECT_EQ(run->started_utc, "2026-01-01T00:00:00Z");
    EXPECT_EQ(run->finished_utc, "2026-01-01T01:00:00Z");
    EXPECT_EQ(run->spec_yaml, "name: old");
    EXPECT_THAT(run->machine, ElementsAre(Pair("cores", "2"), Pair("processor", "a \"fast\" one")));
    ASSERT_EQ(run->levels.size(), 2U);
    EXPECT_EQ(run->levels[0].concurrency, 20U);
    EXPECT_EQ(run->levels[0].turns.size(), 1U);
    expect_the_kv_level(run->levels[1]);
    EXPECT_EQ((*store)->load_run(2)->name, "broken off");
    EXPECT_EQ((*store)->load_run(2)->levels.size(), static_cast<std::size_t>(opening));
    ASSERT_TRUE((*store)->add_level(2, full_level()).has_value());
  }
}

TEST_F(StoreMigrationTest, AFileOfSchema2GetsATableOfSteps) {
  ASSERT_EQ(Store::open(path()).value()->load_run(1)->levels.size(), 2U);
  tamper(path(), "DROP TABLE engine_steps;" + std::string(kDropTablesOfSchema4) + "PRAGMA user_version = 2");
  for (int opening = 0; opening < 2; ++opening) {
    auto store = Store::open(path());
    ASSERT_TRUE(store.has_value()) << store.error().message;
    const auto run = (*store)->load_run(1);
    ASSERT_TRUE(run.has_value()) << run.error().message;
    expect_the_kv_level(run->levels[1]);
    EXPECT_EQ(run->levels[1].workers[0].steps, std::nullopt) << "nobody counted them";
  }
  tamper(path(), "DROP TABLE engine_steps;" + std::string(kDropTablesOfSchema4) +
                     "ALTER TABLE remarks ADD COLUMN author TEXT; PRAGMA user_version = 2");
  EXPECT_THAT(Store::open(path()).error().message, HasSubstr("remarks is not as kvist creates it"));
}

TEST_F(StoreMigrationTest, AFileOfSchema3GetsTablesOfSessionsAndOfTheClientsCertificate) {
  ASSERT_EQ(Store::open(path()).value()->load_run(1)->levels.size(), 2U);
  tamper(path(), std::string(kDropTablesOfSchema4) + "PRAGMA user_version = 3");
  for (int opening = 0; opening < 2; ++opening) {
    auto store = Store::open(path());
    ASSERT_TRUE(store.has_value()) << store.error().message;
    const auto run = (*store)->load_run(1);
    ASSERT_TRUE(run.has_value()) << run.error().message;
    expect_the_kv_level(run->levels[1]);
    EXPECT_EQ(run->levels[1].client.certificate, std::nullopt) << "nobody measured it";
    EXPECT_EQ(run->levels[1].turns[0].session, std::nullopt);
    ASSERT_TRUE((*store)->add_level(2, full_level()).has_value());
    EXPECT_EQ((*store)->load_run(2)->levels.back().turns[0].session, full_level().turns[0].session);
  }
  tamper(path(), "DROP TABLE client_certificates; PRAGMA user_version = 3");
  EXPECT_FALSE(Store::open(path()).has_value()) << "version 3 had no client_shares";
}

TEST_F(StoreMigrationTest, AFileOfSchema4GetsATableOfPauses) {
  ASSERT_EQ(Store::open(path()).value()->load_run(1)->levels.size(), 2U);
  ASSERT_TRUE(Store::open(path()).value()->add_level(2, full_level()).has_value());
  tamper(path(), std::string(kDropTablesOfSchema5) + "PRAGMA user_version = 4");
  for (int opening = 0; opening < 2; ++opening) {
    auto store = Store::open(path());
    ASSERT_TRUE(store.has_value()) << store.error().message;
    const auto run = (*store)->load_run(2);
    ASSERT_TRUE(run.has_value()) << run.error().message;
    const auto& certificate = run->levels.front().client.certificate;
    ASSERT_TRUE(certificate.has_value());
    EXPECT_EQ(certificate->shares, full_certificate().shares) << "what it had, it keeps";
    EXPECT_EQ(certificate->pauses, std::nullopt) << "nobody measured them";
  }
  tamper(path(), "PRAGMA user_version = 4");
  EXPECT_FALSE(Store::open(path()).has_value()) << "version 4 had no client_pauses";
}

TEST_F(StoreMigrationTest, AFileOfSchema5GetsATableOfSources) {
  ASSERT_EQ(Store::open(path()).value()->load_run(1)->levels.size(), 2U);
  tamper(path(), std::string(kDropTablesOfSchema6) + "PRAGMA user_version = 5");
  for (int opening = 0; opening < 2; ++opening) {
    auto store = Store::open(path());
    ASSERT_TRUE(store.has_value()) << store.error().message;
    EXPECT_TRUE((*store)->load_run(1)->sources.empty());
    EXPECT_EQ((*store)->load_run(1)->levels.size(), 2U);
  }
  tamper(path(), "PRAGMA user_version = 5");
  EXPECT_FALSE(Store::open(path()).has_value()) << "version 5 had no run_sources";
}

TEST_F(StoreMigrationTest, AFileOfSchema6GetsTablesOfAgents) {
  ASSERT_EQ(Store::open(path()).value()->load_run(1)->levels.size(), 2U);
  tamper(path(), std::string(kDropTablesOfSchema7) + "PRAGMA user_version = 6");
  for (int opening = 0; opening < 2; ++opening) {
    auto store = Store::open(path());
    ASSERT_TRUE(store.has_value()) << store.error().message;
    EXPECT_TRUE((*store)->load_run(1)->levels[1].agents.empty()) << "nobody else drove it";
    ASSERT_TRUE((*store)->add_level(2, full_level()).has_value());
    expect_equal((*store)->load_run(2)->levels.back(), full_level());
  }
  tamper(path(), "PRAGMA user_version = 6");
  EXPECT_FALSE(Store::open(path()).has_value()) << "version 6 had no load_agents";
}

TEST_F(StoreMigrationTest, AnAlteredFileOfSchema1IsRefusedAndLeftAsItIs) {
  tamper(path(), "CREATE TRIGGER t AFTER INSERT ON turns BEGIN DELETE FROM turns; END");
  EXPECT_THAT(Store::open(path()).error().message, HasSubstr("triggers"));
  tamper(path(), "DROP TRIGGER t; ALTER TABLE remarks ADD COLUMN author TEXT");
  EXPECT_THAT(Store::open(path()).error().message, HasSubstr("remarks is not as kvist creates it"));
  tamper(path(), "ALTER TABLE remarks DROP COLUMN author; UPDATE levels SET position = -1 WHERE id = 7");
  EXPECT_THAT(Store::open(path()).error().message, HasSubstr("out of range"));
  tamper(path(), "UPDATE levels SET position = 1 WHERE id = 7");
  EXPECT_EQ(Store::open(path()).value()->load_run(1)->levels.size(), 2U);
}

}  // namespace
}  // namespace kvist::results::store_migration_test

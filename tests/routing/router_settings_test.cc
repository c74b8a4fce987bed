// What mode kv is told beside what it learns: weights of media, bounds of new workers, sessions that stay.
#include "kvist/routing/router.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <vector>

namespace kvist::routing::router_settings_test {
namespace {

constexpr std::uint32_t kBlockSize = 4;

class RouterSettingsTest : public ::testing::Test {
 protected:
  static std::vector<TokenId> tokens(std::uint32_t count) {
    std::vector<TokenId> result;
    for (std::uint32_t i = 0; i < count; ++i) result.emplace_back(i);
    return result;
  }
  static RouteQuery query(std::uint64_t id, std::uint32_t prompt_tokens, std::vector<WorkerId> excluded = {}) {
    const auto root = kv::root_hash({.model = "m", .lora = "", .cache_salt = ""});
    return {.request = RequestId(id),
            .prompt_tokens = prompt_tokens,
            .blocks = std::make_shared<const std::vector<kv::BlockHash>>(
                kv::hash_blocks(root, tokens(prompt_tokens), kBlockSize)),
            .excluded = std::move(excluded)};
  }

  std::vector<WorkerView> fleet_{3, WorkerView{.available = true, .limits = {}}};
  TimePoint now_;
};

TEST_F(RouterSettingsTest, BlocksInALowerTierCountByItsWeight) {
  Router router({.model = "m",
                 .block_size = kBlockSize,
                 .workers = 3,
                 .mode = spec::RoutingMode::kKv,
                 .tier_weights = {.cpu = 0.75, .disk = 0.5, .remote = 0},
                 .latency_prior = {.per_prefill_token = std::chrono::milliseconds(1)}});
  for (WorkerView& worker : fleet_) worker.events_exact = true;
  const auto tell = [&](std::uint32_t worker, std::uint32_t blocks, kv::Medium medium) {
    kv::BlockStored event;
    event.block_size = kBlockSize;
    event.tokens = tokens(blocks * kBlockSize);
    for (std::uint64_t i = 1; i <= blocks; ++i) event.hashes.emplace_back(i);
    event.medium = medium;
    const std::vector<kv::KvEvent> events{event};
    EXPECT_EQ(router.on_kv_events(WorkerId(worker), events), 0U);
  };
  tell(0, 4, kv::Medium::kDevice);
  tell(0, 8, kv::Medium::kHost);
  tell(1, 8, kv::Medium::kDisk);
  tell(2, 8, kv::Medium::kRemote);
  const auto decision = router.route(query(1, 40), fleet_, now_);
  ASSERT_TRUE(decision);
  EXPECT_EQ(decision->worker, WorkerId(0));
  EXPECT_EQ(decision->predicted_cached_tokens, 32U) << "all that the worker will report as cached";
  const std::vector<Candidate>& candidates = router.log().newest(0).candidates;
  EXPECT_EQ(candidates[0].cached_blocks, 7U) << "4 and 3/4 of 4";
  EXPECT_EQ(candidates[0].lower_tier_blocks, 4U);
  EXPECT_EQ(candidates[1].cached_blocks, 4U);
  EXPECT_EQ(candidates[1].lower_tier_blocks, 8U);
  EXPECT_EQ(candidates[2].cached_blocks, 0U);
  EXPECT_EQ(candidates[2].lower_tier_blocks, 8U);
  EXPECT_EQ(router.find(decision->request)->uncached_tokens, 40U - 7 * kBlockSize);
}

TEST_F(RouterSettingsTest, ANewWorkerIsNoCandidateWhileItsFirstRequestsWait) {
  Router router({.model = "m", .block_size = kBlockSize, .workers = 3, .mode = spec::RoutingMode::kKv});
  fleet_[2].available = false;
  fleet_[1].most_waiting = 1;
  const auto go = [&](std::uint64_t id) {
    RouteQuery asked = query(id, 10);
    asked.blocks = std::make_shared<const std::vector<kv::BlockHash>>();  // no cache is a reason to stay
    const auto decision = router.route(asked, fleet_, now_);
    EXPECT_TRUE(decision);
    return *decision;
  };
  std::optional<Decision> at_new;
  for (std::uint64_t id = 1; id <= 6; ++id) {
    const Decision decision = go(id);
    if (decision.worker == WorkerId(1)) {
      EXPECT_FALSE(at_new) << "a second one before the first one's answer";
      at_new = decision;
    }
  }
  ASSERT_TRUE(at_new) << "it is tried";
  EXPECT_EQ(router.log().newest(0).held_back, std::vector{WorkerId(1)});
  EXPECT_EQ(router.log().newest(0).candidates.size(), 1U);
  EXPECT_GE(router.held_back(), 4U);
  router.on_first_token(at_new->request, now_);
  EXPECT_EQ(go(7).worker, WorkerId(1));
  EXPECT_TRUE(router.log().newest(0).held_back.empty());
  fleet_[0].available = false;
  EXPECT_EQ(go(8).worker, WorkerId(1)) << "there is no other";
  router.set_mode(spec::RoutingMode::kLeastLoaded);
  fleet_[0].available = true;
  (void)go(9);
  EXPECT_EQ(router.log().newest(0).candidates.size(), 2U) << "a published policy does what is published";
}

class SessionAffinityTest : public RouterSettingsTest {
 protected:
  static Router with(spec::SessionAffinitySpec::Form form, spec::RoutingMode mode = spec::RoutingMode::kKv) {
    return Router({.model = "m",
                   .block_size = kBlockSize,
                   .workers = 3,
                   .mode = mode,
                   .session_affinity = {.form = form, .ttl = std::chrono::minutes(1), .worth = std::chrono::seconds(1)},
                   .latency_prior = {.per_prefill_token = std::chrono::milliseconds(1)}});
  }
  Result<Decision> go(Router& router, std::uint64_t session, std::vector<WorkerId> excluded = {}) {
    RouteQuery asked = query(++id_, 10, std::move(excluded));
    asked.session = session;
    return router.route(asked, fleet_, now_);
  }
  /// Makes a worker's queue so long that only the session can be a reason to go there.
  void load(Router& router, WorkerId worker, int prompts, std::uint32_t tokens_each) {
    std::vector<WorkerId> others;
    for (std::uint32_t i = 0; i < 3; ++i)
      if (WorkerId(i) != worker) others.emplace_back(i);
    for (int i = 0; i < prompts; ++i) {
      RouteQuery asked = query(++id_, tokens_each, others);
      asked.blocks = std::make_shared<const std::vector<kv::BlockHash>>();
      asked.streams = true;
      ASSERT_TRUE(router.route(asked, fleet_, now_));
    }
  }

  std::uint64_t id_ = 0;
};

TEST_F(SessionAffinityTest, HardKeepsASessionAtItsWorkerUnlessThatIsGone) {
  Router router = with(spec::SessionAffinitySpec::Form::kHard);
  const WorkerId home = go(router, 7)->worker;
  load(router, home, 20, 2'000);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(go(router, 7)->worker, home);
  EXPECT_EQ(router.log().newest(0).session_worker, home);
  EXPECT_EQ(router.log().newest(0).candidates.size(), 1U);
  EXPECT_NE(go(router, 8)->worker, home) << "another session";
  EXPECT_NE(go(router, 0)->worker, home) << "no session";
  fleet_[home.value()].available = false;  // it drains
  const WorkerId next = go(router, 7)->worker;
  EXPECT_NE(next, home);
  fleet_[home.value()].available = true;
  EXPECT_EQ(go(router, 7)->worker, next) << "the session lives there now";
  EXPECT_EQ(router.session_counts().moved, 1U);
  EXPECT_NE(go(router, 7, {next})->worker, next) << "a retry goes elsewhere";
}

TEST_F(SessionAffinityTest, SoftLeavesForWhatIsFasterByMoreThanItIsWorth) {
  Router router = with(spec::SessionAffinitySpec::Form::kSoft);
  const WorkerId home = go(router, 7)->worker;
  load(router, home, 1, 100);
  EXPECT_EQ(go(router, 7)->worker, home) << "a tenth of a second ahead is no reason";
  for (const Candidate& candidate : router.log().newest(0).candidates)
    EXPECT_EQ(candidate.affinity_ms, candidate.worker == home ? 0 : 1'000) << candidate.worker.value();
  load(router, home, 10, 1'000);
  EXPECT_NE(go(router, 7)->worker, home) << "ten seconds are";
  EXPECT_EQ(router.log().newest(0).session_worker, home);
}

TEST_F(SessionAffinityTest, ForgetsASessionThatWasIdleForTooLong) {
  Router router = with(spec::SessionAffinitySpec::Form::kHard);
  const WorkerId home = go(router, 7)->worker;
  load(router, home, 20, 2'000);
  now_ += std::chrono::seconds(61);
  EXPECT_NE(go(router, 7)->worker, home);
  EXPECT_EQ(router.log().newest(0).session_worker, std::nullopt);
}

TEST_F(SessionAffinityTest, IsForModeKvAlone) {
  Router router = with(spec::SessionAffinitySpec::Form::kHard, spec::RoutingMode::kRoundRobin);
  const WorkerId first = go(router, 7)->worker;
  EXPECT_NE(go(router, 7)->worker, first);
  EXPECT_EQ(router.sessions().size(), 0U);
  Router off = with(spec::SessionAffinitySpec::Form::kOff);
  EXPECT_TRUE(go(off, 7));
  EXPECT_EQ(off.sessions().size(), 0U);
}

}  // namespace
}  // namespace kvist::routing::router_settings_test

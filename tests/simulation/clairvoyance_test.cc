// Mode clairvoyant: what it knows, on cases made by hand, and whole levels.
#include "kvist/simulation/clairvoyance.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "kvist/engine/timed/timed_engine.h"
#include "kvist/kv/block_hash.h"
#include "kvist/routing/router.h"
#include "simulation/runs.h"

namespace kvist::simulation::clairvoyance_test {
namespace {

using spec::RoutingMode;
using std::chrono::milliseconds;

constexpr std::uint32_t kBlock = 16;

/// Two workers with two slots each, whose steps take 10 ms, a prompt token 100 us; the gateway knows nothing of what
/// they do, because no answer reaches it.
class TwoWorkers : public testing::Test {
 protected:
  TwoWorkers() : network_(time_, {}), clairvoyance_(workers_, network_, time_) {
    for (std::uint32_t i = 0; i < 2; ++i) {
      spec::WorkerSpec worker;
      worker.model = "m";
      worker.block_size = kBlock;
      worker.kv_blocks = 2'000;
      worker.max_batch_size = 2;
      worker.max_num_tokens = 1'000;
      worker.step_time = {.fixed = milliseconds(10),
                          .per_prefill_token = std::chrono::microseconds(100),
                          .per_sequence = std::chrono::microseconds(500),
                          .per_kv_token_ns = 0};
      workers_.emplace_back(WorkerId(i), engine::make_timed_engine(worker, tokenizer_).value(), tokenizer_, time_,
                            network_);
      EXPECT_TRUE(clairvoyance_.add_worker(worker));
      fleet_.push_back({.available = true,
                        .events_exact = true,
                        .limits = {.block_size = kBlock, .kv_blocks = 2'000, .max_batch_size = 2}});
    }
  }

  static std::vector<TokenId> prompt(std::uint32_t content, std::size_t tokens) {
    return std::vector<TokenId>(tokens, TokenId(content));
  }

  void send(std::uint32_t worker, std::vector<TokenId> tokens, std::uint32_t answer) {
    network_.request_to_worker(WorkerId(worker), {.id = RequestId(++last_id_),
                                                  .prompt = std::move(tokens),
                                                  .max_tokens = answer,
                                                  .seed = last_id_,
                                                  .ignore_eos = true,
                                                  .cache_salt = {}});
  }

  /// Runs the workers; what they send is lost.
  void run_for(Duration duration) {
    const TimePoint until = time_.now() + duration;
    time_.schedule(until, {.subject = 0, .worker = {}, .kind = EventKind::kSnapshot});
    for (;;) {
      const Event event = time_.next();
      switch (event.kind) {
        case EventKind::kSnapshot:
          return;
        case EventKind::kRequestAtWorker:
          workers_[event.worker.value()].on_request(network_.take_work(event));
          break;
        case EventKind::kWorkerWake:
          workers_[event.worker.value()].on_wake();
          break;
        case EventKind::kWorkerTimer:
          workers_[event.worker.value()].on_timer(event);
          break;
        default:
          break;
      }
    }
  }

  /// The decision for such a request, and every candidate.
  routing::Decision decide(RoutingMode mode, const std::vector<TokenId>& tokens, std::uint32_t answer = 10) {
    routing::Router router(
        {.model = "m", .block_size = kBlock, .workers = 2, .mode = mode, .forecasts = &clairvoyance_});
    workload::StartTurn turn;
    turn.max_tokens = answer;
    turn.ignore_eos = true;
    clairvoyance_.on_turn(turn);
    const kv::BlockHash root = kv::root_hash({.model = "m", .lora = "", .cache_salt = ""});
    const routing::RouteQuery query{
        .request = RequestId(1'000),
        .prompt_tokens = static_cast<std::uint32_t>(tokens.size()),
        .blocks = std::make_shared<const std::vector<kv::BlockHash>>(kv::hash_blocks(root, tokens, kBlock)),
        .excluded = {}};
    const routing::Decision decision = router.route(query, fleet_, time_.now()).value();
    candidates_ = router.log().newest(0).candidates;
    return decision;
  }

  const tokenizer::ByteTokenizer tokenizer_;
  VirtualTime time_;
  Network network_;
  std::vector<SimulatedWorker> workers_;
  Clairvoyance clairvoyance_;
  std::vector<routing::WorkerView> fleet_;
  std::vector<routing::Candidate> candidates_;
  std::uint64_t last_id_ = 0;
};

TEST_F(TwoWorkers, LeavesTheOneWhoseAnswersAreLong) {
  for (int i = 0; i < 2; ++i) send(0, prompt(1, 20), 2'000);
  for (int i = 0; i < 2; ++i) send(1, prompt(2, 20), 20);
  run_for(milliseconds(100));
  EXPECT_EQ(decide(RoutingMode::kClairvoyant, prompt(3, 100)).worker, WorkerId(1));
  EXPECT_EQ(candidates_[0].load.requests, 2U);
  EXPECT_FALSE(candidates_[0].forecast.has_slot);
  EXPECT_GT(candidates_[0].forecast.slot_wait_ms, 10'000);
  EXPECT_LT(candidates_[1].forecast.slot_wait_ms, 300);
  // Without that knowledge the two are the same.
  EXPECT_EQ(decide(RoutingMode::kKv, prompt(3, 100)).worker, WorkerId(0));
}

TEST_F(TwoWorkers, CountsAPromptThatIsStillOnItsWay) {
  send(0, prompt(1, 900), 5);
  EXPECT_EQ(decide(RoutingMode::kClairvoyant, prompt(3, 100)).worker, WorkerId(1));
  EXPECT_EQ(candidates_[0].load.requests, 1U);
  EXPECT_NEAR(candidates_[0].forecast.queue_ms, 100, 15);  // 900 tokens and the step that they are in
  EXPECT_EQ(candidates_[1].forecast.queue_ms, 0);
}

TEST_F(TwoWorkers, KnowsWhatWillBeCachedWhenTheRequestComesToIt) {
  send(1, prompt(1, 800), 500);
  const std::vector<TokenId> same = prompt(1, 800);
  // Its step is not over, so that nothing is findable yet, and the gateway has heard of nothing.
  run_for(milliseconds(60));
  EXPECT_EQ(decide(RoutingMode::kClairvoyant, same).worker, WorkerId(1));
  EXPECT_EQ(candidates_[1].cached_tokens, 784U);  // all whole blocks but the one with the last token
  EXPECT_EQ(candidates_[0].cached_tokens, 0U);
}

TEST_F(TwoWorkers, ForecastsTheFirstTokenThatComes) {
  send(0, prompt(1, 300), 40);
  run_for(milliseconds(33));
  const double forecast_ms = decide(RoutingMode::kClairvoyant, prompt(3, 200)).forecast_ttft_ms;
  // On the idle worker: the way there and back, and one step of 200 tokens and one sequence.
  EXPECT_NEAR(forecast_ms, 2 * to_milliseconds(network_.spec().worker_hop) + 10 + 20 + 0.5, 0.001);
}

TEST(ClairvoyantLevel, IsTheSameEachTimeAndLosesNothing) {
  spec::SweepSpec sweep = small_sweep();
  sweep.workload.request_timeout = milliseconds(1'500);  // some are aborted on their way
  const LevelPlan level{.mode = RoutingMode::kClairvoyant, .concurrency = 30, .seed = 3};
  const LevelRun one = run_level(sweep, level);
  const LevelRun two = run_level(sweep, level);
  ASSERT_FALSE(one.turns.empty());
  EXPECT_EQ(one.turns.size(), two.turns.size());
  EXPECT_EQ(one.outcome.events, two.outcome.events);
  EXPECT_EQ(one.outcome.output_tokens, two.outcome.output_tokens);
}

}  // namespace
}  // namespace kvist::simulation::clairvoyance_test

// The simulator decides nothing: the same source, router and engines called by hand give the same counts.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "kvist/engine/timed/timed_engine.h"
#include "kvist/kv/block_hash.h"
#include "kvist/routing/router.h"
#include "kvist/text/chat.h"
#include "kvist/workload/load_driver.h"
#include "simulation/runs.h"

namespace kvist::simulation::hand_driven_test {
namespace {

/// The result of one turn.
struct Turn {
  std::string worker;
  std::uint32_t prompt_tokens = 0;
  std::uint32_t cached_tokens = 0;
  std::uint32_t completion_tokens = 0;
  TimePoint ended;
  friend bool operator==(const Turn&, const Turn&) = default;
};

std::vector<Turn> turns_of(const LevelRun& run) {
  std::vector<Turn> turns;
  for (const workload::TurnSample& t : run.turns) {
    turns.push_back({t.worker, t.prompt_tokens, t.cached_tokens, t.completion_tokens, t.ended});
  }
  return turns;
}

spec::SweepSpec sweep_without_ways(std::uint32_t workers) {
  spec::SweepSpec sweep = small_sweep(workers);
  sweep.simulation.client_hop = sweep.simulation.gateway_time = Duration(0);
  sweep.simulation.worker_hop = sweep.simulation.kv_event_delay = Duration(0);
  // No two workers' steps end at the same instant: in which order they are looked at then is nobody's rule.
  for (std::size_t i = 0; i < sweep.deployment.workers.size(); ++i) {
    sweep.deployment.workers[i].step_time.fixed += std::chrono::microseconds(37) * static_cast<int>(i);
  }
  return sweep;
}

/// Load, router and engines, called one after the other by a loop over the engines' next instants.
class ByHand {
 public:
  ByHand(const spec::SweepSpec& sweep, const LevelPlan& level)
      : sweep_(sweep),
        source_(sweep.workload, level.concurrency, level.seed, TimePoint{}),
        router_({.model = sweep.deployment.gateway.model,
                 .block_size = sweep.deployment.gateway.block_size,
                 .workers = sweep.deployment.workers.size(),
                 .mode = level.mode,
                 .seed = sweep.deployment.gateway.seed}),
        stop_at_(TimePoint{} + sweep.method.warmup + sweep.method.snapshots * sweep.method.snapshot_interval) {
    for (const spec::WorkerSpec& worker : sweep.deployment.workers) {
      engines_.push_back(std::move(*engine::make_timed_engine(worker, tokenizer_)));
      fleet_.push_back({.available = true,
                        .events_exact = true,
                        .limits = {.block_size = worker.block_size,
                                   .kv_blocks = worker.kv_blocks,
                                   .max_batch_size = worker.max_batch_size,
                                   .max_num_tokens = worker.max_num_tokens}});
    }
  }

  std::vector<Turn> run() {
    launch(source_.poll(now_));
    while (source_.in_flight() > 0) {
      now_ = next_instant();
      if (now_ >= stop_at_) source_.stop();
      for (std::uint32_t i = 0; i < engines_.size(); ++i) poll(i);
      launch(source_.poll(now_));
    }
    return turns_;
  }
  std::uint64_t steps() const {
    std::uint64_t steps = 0;
    for (const auto& engine : engines_) steps += engine->stats().steps;
    return steps;
  }

 private:
  struct Live {
    ConversationId conversation;
    WorkerId worker;
    routing::RequestHandle routed = {};
    std::string reply;
  };

  TimePoint next_instant() const {
    std::optional<TimePoint> next = source_.next_wakeup();
    for (const auto& engine : engines_) {
      const std::optional<TimePoint> wakeup = engine->next_wakeup();
      if (wakeup && (!next || *wakeup < *next)) next = wakeup;
    }
    // Stopping is an event too.
    return now_ < stop_at_ ? std::min(*next, stop_at_) : *next;
  }

  void launch(const std::vector<workload::StartTurn>& turns) {
    for (const workload::StartTurn& turn : turns) {
      const RequestId id(++last_id_);
      std::vector<TokenId> prompt = template_.render(turn.messages, tokenizer_);
      const kv::BlockHash root =
          kv::root_hash({.model = sweep_.deployment.gateway.model, .lora = "", .cache_salt = ""});
      const routing::RouteQuery query{.request = id,
                                      .prompt_tokens = static_cast<std::uint32_t>(prompt.size()),
                                      .blocks = std::make_shared<const std::vector<kv::BlockHash>>(
                                          kv::hash_blocks(root, prompt, sweep_.deployment.gateway.block_size)),
                                      .excluded = {}};
      const routing::Decision decision = *router_.route(query, fleet_, now_);
      const WorkerId worker = decision.worker;
      live_[id] = {.conversation = turn.conversation, .worker = worker, .routed = decision.request, .reply = {}};
      engine::Request request;
      request.id = id;
      request.prompt = std::move(prompt);
      request.max_tokens = turn.max_tokens;
      request.seed = turn.seed;
      EXPECT_TRUE(engines_[worker.value()]->submit(std::move(request), now_));
      woken_.push_back(worker.value());
    }
    // All messages of one instant are processed together.
    for (const std::uint32_t worker : std::exchange(woken_, {})) poll(worker);
  }

  void poll(std::uint32_t worker) {
    const engine::StepOutputs outputs = engines_[worker]->poll(now_);
    std::vector<workload::StartTurn> next;
    for (const engine::RequestOutput& output : outputs.outputs) take(output, next);
    router_.on_kv_events(WorkerId(worker), outputs.events);
    launch(next);
  }

  void take(const engine::RequestOutput& output, std::vector<workload::StartTurn>& next) {
    Live& live = live_.at(output.id);
    router_.on_first_token(live.routed, now_);
    const std::size_t length = live.reply.size();
    for (const TokenId token : output.tokens) tokenizer_.decode(token, live.reply);
    // The gateway sees text: the token that ends an answer has none.
    if (live.reply.size() > length) router_.on_progress(live.routed, 1, now_);
    if (!output.finish) return;
    router_.on_usage(live.routed, output.prompt_tokens, output.cached_tokens);
    router_.on_finished(live.routed, true, now_);
    turns_.push_back({sweep_.deployment.workers[live.worker.value()].name, output.prompt_tokens, output.cached_tokens,
                      output.output_tokens, now_});
    for (workload::StartTurn& turn :
         source_.on_turn_finished(live.conversation, std::move(live.reply), workload::TurnOutcome::kSucceeded, now_)) {
      next.push_back(std::move(turn));
    }
  }

  const spec::SweepSpec& sweep_;
  workload::LoadDriver source_;
  routing::Router router_;
  std::vector<routing::WorkerView> fleet_;
  TimePoint stop_at_;
  tokenizer::ByteTokenizer tokenizer_;
  text::SimpleChatTemplate template_;
  std::vector<std::unique_ptr<engine::EngineDriver>> engines_;
  std::map<RequestId, Live> live_;
  std::vector<std::uint32_t> woken_;
  std::vector<Turn> turns_;
  std::uint64_t last_id_ = 0;
  TimePoint now_;
};

void expect_the_same(std::uint32_t workers, const LevelPlan& level) {
  const spec::SweepSpec sweep = sweep_without_ways(workers);
  const LevelRun simulated = run_level(sweep, level);
  ByHand by_hand(sweep, level);
  const std::vector<Turn> expected = by_hand.run();
  ASSERT_GT(expected.size(), 15U);
  EXPECT_TRUE(turns_of(simulated) == expected);
  EXPECT_EQ(simulated.outcome.steps, by_hand.steps());
}

TEST(HandDriven, AFullBatchOnOneWorker) {
  expect_the_same(1, {.mode = spec::RoutingMode::kKv, .concurrency = 7, .seed = 11});
}

TEST(HandDriven, OneConversationAtATimeOverThreeWorkers) {
  for (const spec::RoutingMode mode :
       {spec::RoutingMode::kRoundRobin, spec::RoutingMode::kKv, spec::RoutingMode::kRandom}) {
    expect_the_same(3, {.mode = mode, .concurrency = 1, .seed = 12});
  }
}

TEST(HandDriven, ManyConversationsOverThreeWorkers) {
  for (const spec::RoutingMode mode : {spec::RoutingMode::kRoundRobin, spec::RoutingMode::kKv}) {
    expect_the_same(3, {.mode = mode, .concurrency = 10, .seed = 13});
  }
}

}  // namespace
}  // namespace kvist::simulation::hand_driven_test

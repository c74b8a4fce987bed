// Random small configurations: the invariants of simulation/invariants.h hold in each, and each is reproducible.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "kvist/base/random.h"
#include "kvist/perfmodel/step_time_model.h"
#include "simulation/runs.h"

namespace kvist::simulation::level_property_test {
namespace {

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random_(mix_seed({seed, seed_part("configuration")})) {}
  std::uint32_t number(std::uint32_t low, std::uint32_t high) {
    return static_cast<std::uint32_t>(random_.uniform_int(low, high));
  }
  Duration duration(std::uint32_t low_ms, std::uint32_t high_ms) {
    return std::chrono::milliseconds(number(low_ms, high_ms));
  }
  bool one_in(std::uint32_t n) { return number(1, n) == 1; }

 private:
  RandomStream random_;
};

spec::SweepSpec random_sweep(Draw& draw) {
  spec::SweepSpec sweep = small_sweep(draw.number(1, 5));
  spec::WorkloadSpec& load = sweep.workload;
  load.turns_min = draw.number(1, 3);
  load.turns_max = load.turns_min + draw.number(0, 3);
  load.starters = draw.number(1, 6);
  load.starter_tokens_min = draw.number(1, 300);
  load.starter_tokens_max = load.starter_tokens_min + draw.number(0, 200);
  load.max_tokens = draw.number(1, 60);
  load.target_rps = draw.number(1, 100);
  load.request_timeout = draw.one_in(3) ? draw.duration(1, 2'000) : std::chrono::seconds(30);

  const std::uint32_t block_size = draw.one_in(2) ? 16 : 8;
  const std::uint32_t slots = draw.number(1, 8);
  const auto kind = draw.one_in(2) ? spec::AdmissionKind::kGreedy : spec::AdmissionKind::kReserveToCompletion;
  const std::uint32_t in_flight = draw.number(1, 2);
  const auto longest = static_cast<std::uint32_t>(spec::longest_request_tokens(load));
  for (spec::WorkerSpec& worker : sweep.deployment.workers) {
    worker.block_size = block_size;
    worker.kv_blocks = longest / block_size + draw.number(1, 100);  // often too few for all slots
    worker.max_model_len = longest + 1;
    worker.max_batch_size = slots;
    worker.max_num_tokens = slots + draw.number(0, 300);
    worker.max_waiting = draw.one_in(4) ? draw.number(1, 3) : 1'000;
    worker.max_steps_in_flight = in_flight;
    worker.admission = kind;
    worker.prefix_deferral = draw.one_in(3);
    worker.prefix_when_planned = draw.one_in(3);
    worker.long_prefill_token_threshold = draw.one_in(3) ? draw.number(1, 200) : 0;
    worker.time_scale = draw.one_in(3) ? 10 : 1;
    worker.output_length.mean_tokens = draw.number(1, 50);
    worker.output_length.standard_deviation_tokens = draw.number(0, 20);
  }
  spec::GatewaySpec& gateway = sweep.deployment.gateway;
  gateway.block_size = block_size;
  gateway.max_retries = draw.number(0, 3);
  gateway.max_in_flight = draw.one_in(5) ? draw.number(1, 5) : 1'000;
  gateway.upstream_timeout = draw.one_in(5) ? draw.duration(1, 1'000) : std::chrono::seconds(600);
  gateway.seed = draw.number(1, 1'000);

  gateway.hold.enabled = draw.one_in(3);

  spec::SimulationSpec& ways = sweep.simulation;
  ways.client_hop = draw.one_in(3) ? Duration(0) : draw.duration(0, 5);
  ways.gateway_time = draw.one_in(3) ? Duration(0) : draw.duration(0, 3);
  ways.worker_hop = draw.one_in(3) ? Duration(0) : draw.duration(0, 5);
  ways.kv_event_delay = draw.one_in(3) ? Duration(0) : draw.duration(0, 50);
  ways.timeline_period = draw.one_in(2) ? Duration(0) : draw.duration(10, 1'000);
  ways.keep_token_gaps = draw.one_in(2);
  ways.unstreamed_share = draw.one_in(4) ? 0.5 : 0;
  if (draw.one_in(3)) {
    spec::WorkerChange change{.at = draw.duration(100, 3'000), .worker = sweep.deployment.workers.front().name};
    if (draw.one_in(2))
      change.restart = draw.duration(1, 500);
    else
      change.slowness = draw.number(2, 4);
    ways.changes.push_back(std::move(change));
  }
  sweep.method.warmup = draw.duration(0, 1'000);
  sweep.method.snapshots = draw.number(1, 3);
  sweep.method.snapshot_interval = draw.duration(100, 3'000);
  sweep.method.window = draw.duration(100, 3'000);
  sweep.method.drain_timeout = draw.one_in(3) ? draw.duration(1, 300) : std::chrono::seconds(60);
  return sweep;
}

/// A GPU profile: its requests reach the engine's queue a moment after the worker, often while a step is under way.
/// With drafts no second step begins beside it, so that timers are armed anew, and old ones go off for nothing.
void use_profile(Draw& draw, spec::SweepSpec& sweep) {
  for (spec::WorkerSpec& worker : sweep.deployment.workers) {
    const std::uint32_t kv_blocks = worker.kv_blocks;
    worker.profile.emplace();
    worker.profile->engine = draw.one_in(2) ? "trtllm" : "vllm";
    worker.profile->set = {{"intake.fixed", draw.number(0, 3)}, {"intake.jitter", draw.number(0, 20)}};
    worker.profile->set["intake.steps"] = draw.number(0, 1);
    Result<spec::WorkerSpec> resolved = perfmodel::resolve(worker);
    ASSERT_TRUE(resolved) << resolved.error().message;
    worker = *std::move(resolved);
    worker.kv_blocks = kv_blocks;
    worker.max_steps_in_flight = 2;
    worker.speculation.enabled = draw.one_in(2);
  }
}

class RandomLevel : public testing::TestWithParam<std::uint64_t> {};

// simulate_level() aborts where an invariant breaks, and names the seed; the name of the running test is the seed too.
TEST_P(RandomLevel, KeepsEveryInvariantAndCanBeRepeated) {
  Draw draw(GetParam());
  spec::SweepSpec sweep = random_sweep(draw);
  if (draw.one_in(3)) use_profile(draw, sweep);
  LevelPlan level{
      .mode = static_cast<spec::RoutingMode>(draw.number(0, 4)), .concurrency = draw.number(1, 30), .seed = GetParam()};
  const std::vector<std::string> once = in_words(run_level(sweep, level));
  EXPECT_EQ(once, in_words(run_level(sweep, level)));
  level.second_thread = true;
  EXPECT_EQ(once, in_words(run_level(sweep, level)));
  // A worker that names blocks otherwise: then prompts and events have tokens again, from which the gateway knows them.
  sweep.deployment.workers.back().model = "another name";
  EXPECT_EQ(once, in_words(run_level(sweep, level)));
}

INSTANTIATE_TEST_SUITE_P(Seed, RandomLevel, testing::Range<std::uint64_t>(1, 151));

}  // namespace
}  // namespace kvist::simulation::level_property_test

// The roll-forward against the engine itself: what it foresees is what happens, if nothing comes later.
#include "kvist/engine/timed/roll_forward.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "kvist/base/random.h"
#include "kvist/engine/timed/timed_engine.h"

namespace kvist::engine::roll_forward_test {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

const tokenizer::ByteTokenizer kTokenizer;

struct Arrival {
  TimePoint at;
  Request request;
};

/// Times that are no multiples of each other, so that two events hardly ever happen at once: their order then depends
/// on who runs the driver.
spec::WorkerSpec worker_of(RandomStream& random) {
  spec::WorkerSpec worker;
  worker.model = "m";
  worker.block_size = 16;
  worker.kv_blocks = 4'000;
  worker.max_batch_size = static_cast<std::uint32_t>(random.uniform_int(2, 8));
  worker.max_num_tokens = static_cast<std::uint32_t>(random.uniform_int(64, 600));
  worker.max_model_len = 4'096;
  worker.max_steps_in_flight = static_cast<std::uint32_t>(random.uniform_int(1, 2));
  worker.prefix_deferral = random.uniform_int(0, 1) == 1;
  worker.prefix_when_planned = random.uniform_int(0, 1) == 1;
  if (random.uniform_int(0, 1) == 1)
    worker.long_prefill_token_threshold = static_cast<std::uint32_t>(random.uniform_int(8, 200));
  worker.step_time = {.fixed = microseconds(10'007),
                      .per_prefill_token = microseconds(11),
                      .per_sequence = microseconds(97),
                      .per_kv_token_ns = 1'013};
  worker.output_length = {.mean_tokens = 12, .standard_deviation_tokens = 6};
  return worker;
}

/// Prompts of which some begin as others do, at random instants.
std::vector<Arrival> workload_of(RandomStream& random, std::size_t count, bool shares) {
  std::vector<Arrival> arrivals;
  TimePoint at{};
  for (std::size_t i = 0; i < count; ++i) {
    at += microseconds(random.uniform_int(1, 60'000));
    Request request;
    request.id = RequestId(i + 1);
    const auto family = static_cast<std::uint32_t>(shares ? random.uniform_int(1, 3) : 10 + static_cast<int>(i));
    request.prompt.assign(static_cast<std::size_t>(random.uniform_int(1, 500)), TokenId(family));
    if (random.uniform_int(0, 1) == 1) {
      request.prompt.resize(request.prompt.size() + static_cast<std::size_t>(random.uniform_int(1, 300)),
                            TokenId(static_cast<std::uint32_t>(1'000 + i)));
    }
    request.max_tokens = static_cast<std::uint32_t>(random.uniform_int(1, 30));
    request.seed = mix_seed({7, i});
    request.ignore_eos = random.uniform_int(0, 2) == 0;
    arrivals.push_back({.at = at, .request = request});
  }
  return arrivals;
}

/// When the first token of the last request comes, and how many tokens of its prompt were cached.
struct Happened {
  TimePoint first_token;
  std::uint32_t cached_tokens = 0;
};

class DrivenEngine {
 public:
  explicit DrivenEngine(const spec::WorkerSpec& worker)
      : driver_(make_timed_engine(worker, kTokenizer).value()), ahead_(RollForward::of(worker).value()) {}

  /// Runs the driver up to `until` as the simulation does.
  void run_until(TimePoint until) {
    while (const auto next = driver_->next_wakeup()) {
      if (*next > until) return;
      poll(*next);
    }
  }
  void submit(const Arrival& arrival) {
    run_until(arrival.at);
    ASSERT_TRUE(driver_->submit(arrival.request, arrival.at));
    poll(arrival.at);
  }
  Foresight look_ahead(TimePoint now, std::span<const Incoming> incoming) {
    driver_->look(view_);
    return ahead_.look_ahead(view_, incoming, now);
  }
  Happened happened(RequestId id) {
    while (!first_token_of(id)) {
      const auto next = driver_->next_wakeup();
      if (!next) break;
      poll(*next);
    }
    return first_.value_or(Happened{});
  }

 private:
  void poll(TimePoint now) {
    driver_->poll(now, outputs_);
    for (const RequestOutput& output : outputs_.outputs) {
      if (!seen_.contains(output.id)) seen_[output.id] = {.first_token = now, .cached_tokens = output.cached_tokens};
    }
  }
  bool first_token_of(RequestId id) {
    const auto found = seen_.find(id);
    if (found == seen_.end()) return false;
    first_ = found->second;
    return true;
  }

  std::unique_ptr<EngineDriver> driver_;
  RollForward ahead_;
  DriverView view_;
  StepOutputs outputs_;
  std::unordered_map<RequestId, Happened> seen_;
  std::optional<Happened> first_;
};

/// The last of some random requests is asked about while it and those before it are on their way for `hop`.
Foresight foresees_the_last(const spec::WorkerSpec& worker, const std::vector<Arrival>& arrivals, Duration hop) {
  DrivenEngine run(worker);
  const TimePoint now = arrivals.back().at - hop;
  std::vector<Incoming> incoming;
  for (const Arrival& arrival : arrivals) {
    if (arrival.at <= now) {
      run.submit(arrival);
    } else {
      incoming.push_back({.request = &arrival.request,
                          .prompt_tokens = static_cast<std::uint32_t>(arrival.request.prompt.size()),
                          .arrives = arrival.at});
    }
  }
  run.run_until(now);
  const Foresight foresight = run.look_ahead(now, incoming);
  for (std::size_t i = arrivals.size() - incoming.size(); i < arrivals.size(); ++i) run.submit(arrivals[i]);
  const Happened happened = run.happened(arrivals.back().request.id);
  EXPECT_EQ(foresight.first_token.time_since_epoch().count(), happened.first_token.time_since_epoch().count());
  EXPECT_EQ(foresight.cached_tokens, happened.cached_tokens);
  const Duration whole = happened.first_token - arrivals.back().at;
  EXPECT_LE(foresight.slot_wait + foresight.queue + foresight.prefill, whole + microseconds(1));
  return foresight;
}

TEST(RollForward, ForeseesTheFirstTokenOfRandomRequests) {
  int shared = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    RandomStream random(seed);
    const spec::WorkerSpec worker = worker_of(random);
    const auto count = static_cast<std::size_t>(random.uniform_int(1, 40));
    const std::vector<Arrival> arrivals = workload_of(random, count, true);
    const Foresight foresight = foresees_the_last(worker, arrivals, microseconds(random.uniform_int(1, 100'000)));
    if (testing::Test::HasFailure()) return;
    shared += foresight.queue > Duration::zero() && foresight.cached_tokens > 0 ? 1 : 0;
  }
  EXPECT_GT(shared, 50) << "too few of them waited behind others and found a prefix";
}

TEST(RollForward, ForeseesWhatWaitsForMemory) {
  int waited = 0;
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    RandomStream random(seed);
    spec::WorkerSpec worker = worker_of(random);
    worker.kv_blocks = static_cast<std::uint32_t>(random.uniform_int(60, 150));
    // Prompts that share nothing, so that nothing is evicted that somebody would have found.
    const std::vector<Arrival> arrivals =
        workload_of(random, static_cast<std::size_t>(random.uniform_int(5, 40)), false);
    const Foresight foresight = foresees_the_last(worker, arrivals, microseconds(random.uniform_int(1, 1'000)));
    if (testing::Test::HasFailure()) return;
    waited += foresight.slot_wait > Duration::zero() ? 1 : 0;
  }
  EXPECT_GT(waited, 50) << "too few of them waited";
}

TEST(RollForward, KnowsTheWayIntoAProfiledEngine) {
  for (const char* engine : {"trtllm", "vllm"}) {
    for (std::uint64_t seed = 1; seed <= 40; ++seed) {
      SCOPED_TRACE(fmt::format("{}, seed {}", engine, seed));
      RandomStream random(seed);
      spec::WorkerSpec worker = worker_of(random);
      worker.profile.emplace();
      worker.profile->engine = engine;
      const std::vector<Arrival> arrivals = workload_of(random, 30, true);
      static_cast<void>(foresees_the_last(worker, arrivals, microseconds(40)));
      if (testing::Test::HasFailure()) return;
    }
  }
}

TEST(RollForward, DividesTheWaitByItsCauses) {
  spec::WorkerSpec worker;
  worker.model = "m";
  worker.block_size = 16;
  worker.kv_blocks = 4'000;
  worker.max_batch_size = 1;
  worker.max_num_tokens = 1'000;
  worker.step_time = {.fixed = milliseconds(10),
                      .per_prefill_token = microseconds(10),
                      .per_sequence = Duration::zero(),
                      .per_kv_token_ns = 0};
  Request first;
  first.id = RequestId(1);
  first.prompt.assign(1'000, TokenId(1));
  first.max_tokens = 5;
  first.ignore_eos = true;
  Request second = first;
  second.id = RequestId(2);
  second.prompt.assign(500, TokenId(2));
  DrivenEngine run(worker);
  run.submit({.at = TimePoint{} + milliseconds(1), .request = first});
  // A prompt of 20 ms, four decode steps of 10 ms in the only slot, then a prompt of 15 ms.
  const Incoming incoming{.request = &second, .prompt_tokens = 500, .arrives = TimePoint{} + milliseconds(2)};
  const Foresight foresight = run.look_ahead(TimePoint{} + milliseconds(2), {&incoming, 1});
  EXPECT_EQ(foresight.first_token, TimePoint{} + milliseconds(1 + 20 + 40 + 15));
  EXPECT_EQ(foresight.slot_wait, milliseconds(40));
  EXPECT_EQ(foresight.prefill, milliseconds(15));
  EXPECT_EQ(foresight.cached_tokens, 0U);
  EXPECT_EQ(foresight.decoding, 0U);
  EXPECT_EQ(foresight.answer_tokens, 5U);
}

}  // namespace
}  // namespace kvist::engine::roll_forward_test

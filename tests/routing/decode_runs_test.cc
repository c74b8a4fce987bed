// A router that is told of steps decides like one that is told of every token. A failure prints the seed that repeats
// it.
#include "kvist/routing/decode_runs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <vector>

#include "kvist/base/random.h"
#include "kvist/routing/router.h"

namespace kvist::routing::decode_runs_test {
namespace {

constexpr std::uint32_t kBlockSize = 16;
constexpr std::size_t kWorkers = 3;

/// A request under way at both routers.
struct Flight {
  RequestHandle by_tokens;
  RequestHandle by_steps;
  WorkerId worker;
  bool decoding = false;
  bool in_run = false;
};

/// The same random life of a fleet, told to one router token by token and to the other by steps.
class Pair {
 public:
  explicit Pair(std::uint64_t seed)
      : random_(seed),
        by_tokens_(make(seed)),
        by_steps_(make(seed)),
        fleet_(kWorkers, WorkerView{.available = true,
                                    .limits = {.block_size = kBlockSize, .kv_blocks = 3'000, .max_batch_size = 24}}) {}

  void run(int events) {
    for (int i = 0; i < events && !::testing::Test::HasFailure(); ++i) {
      now_ += std::chrono::microseconds(random_.uniform_int(100, 3'000));
      const std::int64_t choice = random_.uniform_int(0, 99);
      if (choice < 12) {
        route();
      } else if (choice < 24) {
        first_token();
      } else if (choice < 30) {
        finish();
      } else {
        step(WorkerId(static_cast<std::uint32_t>(random_.uniform_int(0, kWorkers - 1))));
      }
      compare();
    }
    while (!flights_.empty()) finish();
    compare();
    EXPECT_EQ(by_steps_.loads().requests(), 0U);
  }
  [[nodiscard]] std::uint64_t tokens_in_runs() const { return tokens_in_runs_; }

 private:
  static Router make(std::uint64_t seed) {
    return Router(
        {.model = "m", .block_size = kBlockSize, .workers = kWorkers, .mode = spec::RoutingMode::kKv, .seed = seed});
  }

  void route() {
    const auto root = kv::root_hash({.model = "m", .lora = "", .cache_salt = ""});
    std::vector<TokenId> prompt(static_cast<std::size_t>(random_.uniform_int(20, 3'000)));
    for (TokenId& token : prompt) token = TokenId(static_cast<std::uint32_t>(random_.uniform_int(0, 1)));
    const RouteQuery query{
        .request = RequestId(++last_id_),
        .prompt_tokens = static_cast<std::uint32_t>(prompt.size()),
        .blocks = std::make_shared<const std::vector<kv::BlockHash>>(kv::hash_blocks(root, prompt, kBlockSize)),
        .streams = true,
        .excluded = {}};
    const auto a = by_tokens_.route(query, fleet_, now_);
    const auto b = by_steps_.route(query, fleet_, now_);
    ASSERT_TRUE(a && b);
    ASSERT_EQ(a->worker, b->worker);
    ASSERT_EQ(a->forecast_ttft_ms, b->forecast_ttft_ms);
    ASSERT_EQ(a->forecast_wait_ms, b->forecast_wait_ms);
    flights_.push_back({.by_tokens = a->request, .by_steps = b->request, .worker = a->worker});
  }

  void first_token() {
    const auto flight = std::ranges::find_if(flights_, [](const Flight& f) { return !f.decoding; });
    if (flight == flights_.end()) return;
    flight->decoding = true;
    for (Router* const router : {&by_tokens_, &by_steps_}) {
      const RequestHandle handle = router == &by_tokens_ ? flight->by_tokens : flight->by_steps;
      router->on_first_token(handle, now_);
      (void)router->on_progress(handle, 1, now_);
    }
  }

  void finish() {
    if (flights_.empty()) return;
    const auto flight = flights_.begin() + random_.uniform_int(0, std::ssize(flights_) - 1);
    const bool completed = random_.uniform() < 0.8;
    by_tokens_.on_finished(flight->by_tokens, completed, now_);
    by_steps_.on_finished(flight->by_steps, completed, now_);
    flights_.erase(flight);
  }

  // Those in the run come first, in the order in which they joined.
  void step(WorkerId worker) {
    std::deque<Flight*> rest;
    for (Flight& flight : flights_)
      if (flight.worker == worker && flight.decoding && !flight.in_run) rest.push_back(&flight);
    for (Flight& flight : flights_) {
      if (!flight.in_run || flight.worker != worker || random_.uniform() >= 0.02) continue;
      flight.in_run = false;
      by_steps_.leave_run(flight.by_steps);
      std::erase(joined_[worker.value()], by_steps_.find(flight.by_steps)->id);
      rest.push_back(&flight);
    }
    while (!rest.empty() && random_.uniform() < 0.8) {
      rest.front()->in_run = true;
      by_steps_.join_run(rest.front()->by_steps);
      joined_[worker.value()].push_back(by_steps_.find(rest.front()->by_steps)->id);
      rest.pop_front();
    }
    std::vector<Flight*> run = in_order_of_joining(worker);
    for (const Flight* const flight : run) (void)by_tokens_.on_progress(flight->by_tokens, 1, now_);
    EXPECT_EQ(by_steps_.on_run_step(worker, now_), run.size());
    tokens_in_runs_ += run.size();
    for (const Flight* const flight : rest) {
      (void)by_tokens_.on_progress(flight->by_tokens, 1, now_);
      (void)by_steps_.on_progress(flight->by_steps, 1, now_);
    }
  }

  std::vector<Flight*> in_order_of_joining(WorkerId worker) {
    std::vector<Flight*> run;
    for (Flight& flight : flights_)
      if (flight.in_run && flight.worker == worker) run.push_back(&flight);
    std::vector<RequestId>& order = joined_[worker.value()];
    std::erase_if(order, [&](RequestId id) {
      return std::ranges::none_of(run, [&](const Flight* f) { return by_steps_.find(f->by_steps)->id == id; });
    });
    std::ranges::sort(run, {}, [&](const Flight* f) {
      return std::ranges::find(order, by_steps_.find(f->by_steps)->id) - order.begin();
    });
    return run;
  }

  void compare() {
    for (std::uint32_t i = 0; i < kWorkers; ++i) {
      const WorkerId worker(i);
      ASSERT_EQ(by_tokens_.loads().load(worker), by_steps_.loads().load(worker)) << "worker " << i;
      for (std::size_t bin = 0; bin < kBins; ++bin)
        ASSERT_EQ(by_tokens_.loads().progress(worker).in_bin(bin), by_steps_.loads().progress(worker).in_bin(bin))
            << "worker " << i << ", bin " << bin;
    }
    ASSERT_EQ(by_tokens_.forecaster().output_lengths().mean_tokens(),
              by_steps_.forecaster().output_lengths().mean_tokens());
  }

  RandomStream random_;
  Router by_tokens_;
  Router by_steps_;
  std::vector<WorkerView> fleet_;
  std::vector<Flight> flights_;
  std::vector<RequestId> joined_[kWorkers];
  TimePoint now_;
  std::uint64_t last_id_ = 0;
  std::uint64_t tokens_in_runs_ = 0;
};

TEST(DecodeRunsProperty, DecideLikeTokensOneByOne) {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Pair pair(seed);
    pair.run(1'500);
    if (HasFailure()) return;
    EXPECT_GT(pair.tokens_in_runs(), 1'000U);
  }
}

TEST(DecodeRuns, ALengthIsRightWhenTheRequestLeaves) {
  DecodeRuns runs(2);
  RoutedRequest request{.id = RequestId(1), .worker = WorkerId(1), .decoding = true, .output_tokens = 5};
  runs.join(request);
  std::vector<std::uint64_t> lengths;
  for (int i = 0; i < 20; ++i) {
    runs.on_step(WorkerId(1));
    runs.on_moved(WorkerId(1), 0, 1, [&](std::uint64_t, std::uint64_t to) { lengths.push_back(to); });
  }
  runs.leave(request);
  runs.leave(request);
  EXPECT_EQ(request.output_tokens, 25U);
  // One by one up to 16, then two tokens wide.
  EXPECT_EQ(lengths, (std::vector<std::uint64_t>{6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 20, 22, 24}));
  EXPECT_TRUE(runs.ids(WorkerId(1)).empty());
}

}  // namespace
}  // namespace kvist::routing::decode_runs_test

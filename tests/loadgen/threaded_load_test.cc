#include "kvist/loadgen/threaded_load.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <set>

#include "loadgen/service_fixture.h"

namespace kvist::loadgen::threaded_load_test {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

class ThreadedLoadTest : public ServiceFixture {
 protected:
  void TearDown() override {
    on_loop([this] { load_.reset(); });
    ServiceFixture::TearDown();
  }
  /// A server that answers at once, and a load on so many threads.
  void make(std::uint32_t threads) {
    on_loop([&] {
      server_ =
          std::make_unique<ScriptedServer>(loop_, [](std::size_t, auto exchange) { answer(*exchange, {"x", "y"}); });
      options_.target_url = server_->url();
      load_ = std::move(make_threaded_load(loop_, options_, threads).value());
    });
  }
  std::string error_of(std::uint32_t threads) {
    return on_loop([&] { return make_threaded_load(loop_, options_, threads).error().message; });
  }
  Result<void> start_load(std::uint32_t level, std::uint64_t seed = 1) {
    return on_loop([&] { return load_->start(level, seed); });
  }

  std::unique_ptr<Load> load_;
};

TEST_F(ThreadedLoadTest, SendsEachRequestOnceAtTheInstantsOfOneSchedule) {
  options_.workload.arrivals = {.kind = spec::ArrivalKind::kConstant, .rate_per_s = 400};
  options_.max_turns = 20;
  make(3);
  std::promise<void> ended;
  on_loop([&] { load_->on_ended([&] { ended.set_value(); }); });
  ASSERT_TRUE(start_load(24'000, 5).has_value());
  ASSERT_EQ(ended.get_future().wait_for(std::chrono::seconds(100)), std::future_status::ready);
  const std::vector<workload::TurnSample> samples = on_loop([&] { return load_->take_samples(); });
  ASSERT_THAT(samples, SizeIs(20));
  std::map<std::uint64_t, TimePoint> intended;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    EXPECT_EQ(samples[i].outcome, workload::TurnOutcome::kSucceeded) << samples[i].error;
    intended[samples[i].conversation.value()] = samples[i].intended;
    if (i > 0) {
      EXPECT_LE(samples[i - 1].ended, samples[i].ended);
    }
  }
  ASSERT_THAT(intended, SizeIs(20));
  for (std::uint64_t id = 0; id < 20; ++id) {
    EXPECT_EQ(intended.at(id) - intended.at(0), std::chrono::microseconds(2'500) * static_cast<int>(id));
  }
  std::set<std::string> requests;
  for (const net::HttpRequest& request : on_loop([&] { return server_->requests(); })) {
    requests.emplace(request.headers.find("X-Request-Id").value_or(""));
  }
  EXPECT_THAT(requests, SizeIs(20));
  EXPECT_TRUE(requests.contains("loadgen-5-19-0"));
  const Progress progress = on_loop([&] { return load_->progress(std::chrono::seconds(10)); });
  EXPECT_EQ(progress.succeeded, 20U);
  EXPECT_TRUE(progress.window.ttft_p50_ms.has_value());
  EXPECT_THAT(on_loop([&] { return load_->client_load(); }).loops, SizeIs(3));
  EXPECT_TRUE(on_loop([&] { return load_->is_exhausted(); }));
}

TEST_F(ThreadedLoadTest, AClosedLoopIsDividedAndStopsAsOne) {
  make(2);
  ASSERT_TRUE(start_load(5).has_value());
  await([&] { return server_->requests().size() >= 30; });
  std::promise<std::uint32_t> left;
  on_loop([&] { load_->stop(true, [&] { left.set_value(load_->in_flight()); }); });
  auto done = left.get_future();
  ASSERT_EQ(done.wait_for(std::chrono::seconds(100)), std::future_status::ready);
  EXPECT_EQ(done.get(), 0U);
  const std::vector<workload::TurnSample> samples = on_loop([&] { return load_->take_samples(); });
  EXPECT_EQ(samples.size(), requests_seen());
  std::set<std::uint64_t> conversations;
  for (const workload::TurnSample& sample : samples) conversations.insert(sample.conversation.value());
  EXPECT_EQ(conversations.size(), samples.size());
  EXPECT_TRUE(std::ranges::any_of(conversations, [](std::uint64_t id) { return id % 2 == 0; }));
  EXPECT_TRUE(std::ranges::any_of(conversations, [](std::uint64_t id) { return id % 2 == 1; }));
}

TEST_F(ThreadedLoadTest, WhatCannotBeDividedIsRefused) {
  make(3);
  EXPECT_THAT(start_load(2).error().message, HasSubstr("2 conversations at once on 3 threads"));
  options_.workload.arrivals = {.kind = spec::ArrivalKind::kConstant, .max_conversations = 2};
  EXPECT_THAT(error_of(3), HasSubstr("2 conversations at most on 3 threads"));
  auto trace = std::make_shared<workload::Trace>();
  trace->requests.push_back({std::chrono::milliseconds(0), 600, 10, {1}});
  options_.workload.arrivals = {};
  options_.workload.trace.file = "t.jsonl";
  options_.input.trace = std::move(trace);
  EXPECT_THAT(error_of(2), HasSubstr("a trace is driven by one thread"));
}

}  // namespace
}  // namespace kvist::loadgen::threaded_load_test

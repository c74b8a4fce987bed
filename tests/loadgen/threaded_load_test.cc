#include "kvist/loadgen/threaded_load.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <set>

#include "kvist/loadgen/load_merge.h"
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

  std::unique_ptr<ThreadedLoad> load_;
};

TEST(MergeProgress, ErrorsAreOfTheTurnsOfAllParts) {
  std::vector<Progress> parts(2);
  parts[0].window.turns_per_s = 6;
  parts[0].window.error_pct = 0;
  parts[1].window.failed_per_s = 2;  // nothing but failures there
  parts[1].window.error_pct = 100;
  const Progress all = merge_progress(parts, TimePoint{});
  EXPECT_DOUBLE_EQ(all.window.turns_per_s, 6);
  EXPECT_DOUBLE_EQ(all.window.failed_per_s, 2);
  EXPECT_DOUBLE_EQ(all.window.error_pct, 25);
  EXPECT_EQ(merge_progress({}, TimePoint{}).window.error_pct, 0);
}

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

// A thread's last turn may end while its next arrival is still to come, and the other threads go on.
TEST_F(ThreadedLoadTest, NoArrivalComesBehindAThreadsShareOfTheRequests) {
  options_.workload.arrivals = {.kind = spec::ArrivalKind::kPoisson, .rate_per_s = 200};
  options_.workload.turns_min = 3;
  options_.workload.turns_max = 5;
  options_.max_turns = 60;
  make(4);
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    std::promise<void> ended;
    on_loop([&] { load_->on_ended([&] { ended.set_value(); }); });
    ASSERT_TRUE(start_load(12'000, seed).has_value());
    ASSERT_EQ(ended.get_future().wait_for(std::chrono::seconds(100)), std::future_status::ready);
    EXPECT_THAT(on_loop([&] { return load_->take_samples(); }), SizeIs(60)) << "seed " << seed;
  }
}

TEST_F(ThreadedLoadTest, SaysOnceThatItIsOverAndByWhom) {
  std::vector<std::optional<TimePoint>> over;
  make(3);
  on_loop([&] { load_->on_over([&](std::optional<TimePoint> stopped) { over.push_back(stopped); }); });
  ASSERT_TRUE(start_load(3).has_value());
  await([&] { return server_->requests().size() >= 10; });
  EXPECT_THAT(start_load(3).error().message, HasSubstr("already running"));
  const TimePoint stopped = on_loop([&] {
    const TimePoint now = net::now();
    load_->stop(true, {});
    return now;
  });
  await([&] { return !over.empty(); });
  ASSERT_THAT(on_loop([&] { return over; }), SizeIs(1));
  ASSERT_TRUE(over.front().has_value());
  EXPECT_GE(*over.front(), stopped);
  EXPECT_LT(*over.front(), net::now());
  ASSERT_TRUE(start_load(3).has_value());
  on_loop([&] { load_->stop(false, {}); });
  await([&] { return over.size() == 2; });
}

TEST_F(ThreadedLoadTest, AChangeIsMadeByTheThreadsThatAreLeft) {
  options_.max_turns = 4;  // two of each thread
  options_.workload.target_rps = 0;
  on_loop([&] {
    server_ = std::make_unique<ScriptedServer>(loop_, [this](std::size_t index, auto exchange) {
      // The conversations of the second thread get no answer.
      const std::string id(server_->requests()[index].headers.find("X-Request-Id").value_or(""));
      if (!id.ends_with("-1-1-0")) answer(*exchange, {"x"});
    });
    options_.target_url = server_->url();
    load_ = std::move(make_threaded_load(loop_, options_, 2).value());
  });
  ASSERT_TRUE(start_load(2).has_value());
  await([&] { return load_->progress(std::chrono::seconds(10)).succeeded == 2; });
  const Result<void> changed = on_loop([&] { return load_->change({.concurrency = 6}); });
  EXPECT_TRUE(changed.has_value()) << changed.error().message;
  EXPECT_THAT(on_loop([&] { return load_->changes(); }), SizeIs(1));
  on_loop([&] { load_->stop(false, {}); });
}

TEST_F(ThreadedLoadTest, WhatCannotBeDividedIsRefused) {
  make(3);
  EXPECT_THAT(start_load(2).error().message, HasSubstr("2 conversations at once on 3 threads"));
  options_.workload.arrivals = {.kind = spec::ArrivalKind::kConstant, .max_conversations = 2};
  EXPECT_THAT(error_of(3), HasSubstr("2 conversations at most on 3 threads"));
  options_.workload.arrivals = {};
  options_.workload.trace.file = "run.sqlite";
  options_.input.recorded = std::make_shared<workload::RecordedLevel>();
  EXPECT_THAT(error_of(2), HasSubstr("recorded run"));
}

TEST_F(ThreadedLoadTest, ATraceIsDividedByItsChains) {
  auto trace = std::make_shared<workload::Trace>();
  for (int i = 0; i < 11; ++i) trace->requests.push_back({std::chrono::milliseconds(2 * i), 60, 5, {1, 2}});
  trace->requests[7].after = workload::FollowUp{.request = 2};
  options_.workload.trace.file = "t.jsonl";
  options_.input.trace = std::move(trace);
  make(3);
  std::promise<void> ended;
  on_loop([&] { load_->on_ended([&] { ended.set_value(); }); });
  ASSERT_TRUE(start_load(1).has_value());
  ASSERT_EQ(ended.get_future().wait_for(std::chrono::seconds(100)), std::future_status::ready);
  std::multiset<std::uint64_t> places;
  for (const workload::TurnSample& sample : on_loop([&] { return load_->take_samples(); })) {
    places.insert(sample.conversation.value());
  }
  ASSERT_THAT(places, SizeIs(11));
  for (std::uint64_t place = 0; place < 11; ++place) EXPECT_EQ(places.count(place), 1U) << place;
}

TEST_F(ThreadedLoadTest, ControlApiViewAndFeedAreOfAllParts) {
  options_.workload.target_rps = 0;
  options_.feed = std::make_shared<workload::LoadFeed>();
  make(2);
  const std::string url = "http://127.0.0.1:" + std::to_string(on_loop([&] { return load_->port(); }));
  const auto ask = [&](const std::string& method, const std::string& path, std::string body = {}) {
    net::Headers headers;
    if (method != "GET") headers.add("Content-Type", "application/json");
    return net::fetch_blocking(method, url + path, std::move(body), std::chrono::seconds(100), std::move(headers))
        .value();
  };
  EXPECT_EQ(on_loop([&] { return load_->view().state; }), "idle");
  EXPECT_EQ(ask("PATCH", "/load", R"({"concurrency":5})").status, 400);
  EXPECT_EQ(ask("POST", "/start", R"({"concurrency":1})").status, 400);  // fewer than threads
  EXPECT_EQ(ask("POST", "/start", R"({"concurrency":3,"seed":9})").status, 200);
  await([&] { return server_->requests().size() >= 40; });
  const LoadView view = on_loop([&] { return load_->view(); });
  EXPECT_EQ(view.state, "running");
  EXPECT_EQ(view.concurrency, 3U);
  EXPECT_EQ(view.seed, 9U);
  const net::HttpResponse changed = ask("PATCH", "/load", R"({"concurrency":7,"max_start_rate":2000})");
  EXPECT_EQ(changed.status, 200) << changed.body;
  EXPECT_THAT(changed.body, HasSubstr(R"("concurrency":7)"));
  EXPECT_THAT(changed.body, HasSubstr(R"("max_start_rate":2000)"));
  EXPECT_EQ(ask("PATCH", "/load", R"({"concurrency":1})").status, 400);
  EXPECT_EQ(ask("PATCH", "/load", R"({"rate":1})").status, 422);
  const std::size_t before = requests_seen();
  await([&] { return server_->requests().size() >= before + 40; });
  EXPECT_EQ(ask("POST", "/stop", R"({"drain":true})").status, 200);
  const std::size_t sent = requests_seen();
  EXPECT_THAT(ask("GET", "/status").body, HasSubstr(R"("succeeded":)" + std::to_string(sent)));
  EXPECT_THAT(ask("GET", "/metrics").body,
              HasSubstr(R"(loadgen_requests_total{outcome="succeeded"} )" + std::to_string(sent)));
  EXPECT_EQ(on_loop([&] { return load_->changes().size(); }), 1U);
  const workload::LoadBatch batch = on_loop([&] { return load_->take_batch(); });
  EXPECT_EQ(batch.started.size(), sent);
  EXPECT_EQ(batch.ended.size(), sent);
  std::set<std::uint64_t> residues;
  for (std::size_t i = 0; i < sent; ++i) {
    residues.insert(batch.started[i].conversation.value() % 2);
    if (i > 0) {
      EXPECT_LE(batch.started[i - 1].at, batch.started[i].at);
      EXPECT_LE(batch.ended[i - 1].sample.ended, batch.ended[i].sample.ended);
    }
  }
  EXPECT_THAT(residues, SizeIs(2));
  EXPECT_TRUE(on_loop([&] { return load_->take_batch(); }).started.empty());
}

}  // namespace
}  // namespace kvist::loadgen::threaded_load_test

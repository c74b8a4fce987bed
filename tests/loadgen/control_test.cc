// The control API and the metrics, over HTTP.
#include <cmath>

#include "kvist/loadgen/control_api.h"
#include "kvist/telemetry/exposition.h"
#include "loadgen/service_fixture.h"

namespace kvist::loadgen::control_test {
namespace {

using ::testing::Test;

class ControlTest : public ServiceFixture {
 protected:
  telemetry::MetricSamples metrics() {
    const net::HttpResponse response = call("GET", "/metrics");
    EXPECT_EQ(response.status, 200);
    Result<telemetry::MetricSamples> samples = telemetry::MetricSamples::parse(response.body);
    EXPECT_TRUE(samples.has_value()) << samples.error().message;
    return std::move(*samples);
  }

  static double value(const telemetry::MetricSamples& samples, const std::string& name,
                      const std::pair<std::string, std::string>& label = {}) {
    for (const telemetry::MetricSample& sample : samples.samples()) {
      if (sample.name != name) continue;
      if (label.first.empty()) return sample.value;
      for (const auto& own : sample.labels) {
        if (own == label) return sample.value;
      }
    }
    ADD_FAILURE() << name << " is missing";
    return -1;
  }
};

TEST_F(ControlTest, ARunIsStartedWatchedAndStopped) {
  serve([](std::size_t, auto exchange) { answer(*exchange, {"x"}); });
  EXPECT_NE(call("GET", "/status").body.find(R"("state":"idle")"), std::string::npos);

  const net::HttpResponse started = call("POST", "/start", R"({"concurrency":3,"seed":77})");
  EXPECT_EQ(started.status, 200);
  EXPECT_NE(started.body.find(R"("state":"running")"), std::string::npos) << started.body;
  EXPECT_NE(started.body.find(R"("concurrency":3,"seed":77)"), std::string::npos) << started.body;
  EXPECT_EQ(call("POST", "/start", R"({"concurrency":3})").status, 400);  // already running
  await([&] { return server_->requests().size() >= 5; });

  const net::HttpResponse stopped = call("POST", "/stop", R"({"drain":true})");
  EXPECT_EQ(stopped.status, 200);
  EXPECT_NE(stopped.body.find(R"("state":"idle")"), std::string::npos) << stopped.body;
  EXPECT_NE(stopped.body.find(R"("in_flight":0)"), std::string::npos) << stopped.body;
  const std::size_t sent = requests_seen();
  EXPECT_NE(stopped.body.find("\"succeeded\":" + std::to_string(sent)), std::string::npos) << stopped.body;
  EXPECT_EQ(on_loop([&] { return server_->requests().front().headers.find("X-Request-Id") == "loadgen-4d-0-0"; }),
            true);
}

TEST_F(ControlTest, AStopWithoutDrainingAbandons) {
  serve([](std::size_t, auto) {});
  EXPECT_EQ(call("POST", "/start", R"({"concurrency":2})").status, 200);
  await([&] { return server_->requests().size() == 2; });
  const net::HttpResponse stopped = call("POST", "/stop", R"({"drain":false})");
  EXPECT_EQ(stopped.status, 200);
  EXPECT_NE(stopped.body.find(R"("abandoned":2)"), std::string::npos) << stopped.body;
  await([&] { return server_->clients_gone() == 2; });
}

TEST_F(ControlTest, ALoadIsChangedWhileItRuns) {
  options_.workload.target_rps = 0;
  serve([](std::size_t, auto) {});
  EXPECT_EQ(call("PATCH", "/load", R"({"concurrency":5})").status, 400);  // idle
  EXPECT_EQ(call("POST", "/start", R"({"concurrency":2})").status, 200);
  await([&] { return server_->requests().size() == 2; });
  const net::HttpResponse changed = call("PATCH", "/load", R"({"concurrency":5})");
  EXPECT_EQ(changed.status, 200);
  EXPECT_NE(changed.body.find(R"("concurrency":5)"), std::string::npos) << changed.body;
  EXPECT_NE(changed.body.find(R"("in_flight":5)"), std::string::npos) << changed.body;
  await([&] { return server_->requests().size() == 5; });
  EXPECT_EQ(call("PATCH", "/load", R"({"max_start_rate":7.5})").status, 200);
  EXPECT_NE(call("GET", "/status").body.find(R"("max_start_rate":7.5,"target_rps":7.5)"), std::string::npos);
  EXPECT_EQ(call("PATCH", "/load", R"({"rate":5})").status, 422);
  EXPECT_EQ(call("PATCH", "/load", R"({})").status, 400);
  EXPECT_EQ(call("PATCH", "/load", R"({"concurrency":0})").status, 400);
  EXPECT_EQ(call("PATCH", "/load", R"({"rat":1})").status, 400);
  const std::vector<workload::AppliedChange> changes = on_loop([&] { return service_->changes(); });
  ASSERT_EQ(changes.size(), 2U);
  EXPECT_EQ(changes[0].change.concurrency, 5U);
  EXPECT_EQ(changes[1].change.max_start_rate, 7.5);
  EXPECT_LT(changes[0].at, changes[1].at);
}

TEST_F(ControlTest, TheRateOfAnOpenLoopIsChanged) {
  options_.workload.arrivals.kind = spec::ArrivalKind::kConstant;
  options_.workload.arrivals.rate_per_s = 0.001;
  options_.workload.arrivals.when_full = spec::WhenFull::kRefuse;
  serve([](std::size_t, auto) {});
  EXPECT_EQ(call("POST", "/start", R"({"concurrency":1})").status, 200);
  await([&] { return server_->requests().size() == 1; });
  const net::HttpResponse changed = call("PATCH", "/load", R"({"rate":200,"max_in_flight":4})");
  EXPECT_EQ(changed.status, 200);
  EXPECT_NE(changed.body.find(R"("concurrency":12000)"), std::string::npos) << changed.body;  // starts per minute
  EXPECT_NE(changed.body.find(R"("target_rps":200)"), std::string::npos) << changed.body;
  await([&] { return service_->client_load().refused_starts.has_value(); });
  EXPECT_EQ(requests_seen(), 4U);
}

TEST_F(ControlTest, AStartOrdersTheRateOfAnOpenLoopWhateverTheWorkloadHas) {
  options_.workload.arrivals.kind = spec::ArrivalKind::kConstant;
  options_.workload.arrivals.rate_per_s = 8;
  serve([](std::size_t, auto exchange) { answer(*exchange, {"x"}); });
  const net::HttpResponse started = call("POST", "/start", R"({"concurrency":1200})");
  EXPECT_NE(started.body.find(R"("target_rps":20)"), std::string::npos) << started.body;
  stop(false);
  const Result<void> limited = on_loop([&] { return service_->start_with(480, 1, {.rate = 2}); });
  ASSERT_TRUE(limited.has_value()) << limited.error().message;
  EXPECT_DOUBLE_EQ(on_loop([&] { return service_->view().rate_per_s.value(); }), 2);
  EXPECT_TRUE(on_loop([&] { return service_->changes().empty(); }));
  stop(false);
}

TEST_F(ControlTest, AChangeToComeHoldsFromItsInstantOn) {
  options_.workload.arrivals.kind = spec::ArrivalKind::kConstant;
  options_.workload.arrivals.rate_per_s = 50;
  serve([](std::size_t, auto exchange) { answer(*exchange, {"x"}); });
  const TimePoint begin = net::now();
  const TimePoint at = begin + std::chrono::milliseconds(310);
  on_loop([&] {
    ASSERT_TRUE(service_->start_at(1, 1, begin, {}).has_value());
    ASSERT_TRUE(service_->change_at({.rate = 500}, at).has_value());
    EXPECT_EQ(service_->change_at({.concurrency = 3}, at).error().code, ErrorCode::kUnsupported);
    EXPECT_TRUE(service_->changes().empty());
    // The loop is late for both: turns before the change and after it go out at once, as each was ordered.
    std::this_thread::sleep_until(
        std::chrono::steady_clock::time_point((at + std::chrono::milliseconds(150)).time_since_epoch()));
  });
  await([&] { return server_->requests().size() >= 60; });
  stop(true);
  const auto changes = on_loop([&] { return service_->changes(); });
  ASSERT_EQ(changes.size(), 1U);
  EXPECT_EQ(changes[0].at, at);
  std::vector<workload::TurnSample> samples = take_samples();
  std::ranges::sort(samples, {}, &workload::TurnSample::intended);
  ASSERT_GE(samples.size(), 60U);
  // One each 20 ms; of the last gap half has passed at the change, and the rest takes a tenth.
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const Duration due = i <= 15
                             ? std::chrono::milliseconds(20) * static_cast<int>(i)
                             : std::chrono::milliseconds(311) + std::chrono::milliseconds(2) * static_cast<int>(i - 16);
    EXPECT_EQ(samples[i].intended - begin, due) << i;
  }
}

TEST_F(ControlTest, WrongCallsAreRefused) {
  serve([](std::size_t, auto) {});
  EXPECT_EQ(call("GET", "/nothing").status, 404);
  EXPECT_EQ(call("GET", "/start").status, 405);
  EXPECT_EQ(call("POST", "/metrics").status, 405);
  EXPECT_EQ(call("POST", "/start", "").status, 400);
  EXPECT_EQ(call("POST", "/start", R"({"concurrency":0})").status, 400);
  EXPECT_EQ(call("POST", "/start", R"({"concurrency":"3"})").status, 400);
  EXPECT_EQ(call("POST", "/start", R"({"concurrency":3,"sed":1})").status, 400);
  EXPECT_EQ(call("POST", "/stop", R"({"drain":1})").status, 400);
  EXPECT_EQ(call("POST", "/stop", "").status, 200);  // idle: stopped at once
  EXPECT_EQ(requests_seen(), 0U);
}

TEST_F(ControlTest, MetricsEqualTheSamples) {
  options_.workload.turns_min = options_.workload.turns_max = 2;
  serve([](std::size_t index, auto exchange) {
    if (index % 5 == 4) {
      net::HttpResponse busy;
      busy.status = 429;
      return exchange->respond(busy);
    }
    answer(*exchange, {"Once", " upon", " a time."});
  });
  start(3);
  await([&] { return server_->requests().size() >= 20; });
  stop(true);

  std::vector<double> ttft_s;
  double succeeded = 0;
  double failed = 0;
  double starts = 0;
  double tokens = 0;
  double latency_s = 0;
  double gaps = 0;
  for (const workload::TurnSample& sample : take_samples()) {
    starts += sample.turn == 0 ? 1 : 0;
    if (sample.outcome == workload::TurnOutcome::kFailed) {
      ++failed;
      continue;
    }
    ++succeeded;
    tokens += sample.completion_tokens;
    gaps += static_cast<double>(sample.gaps_ms.size());
    ttft_s.push_back(sample.ttft_ms() * 1e-3);
    latency_s += sample.latency_ms() * 1e-3;
  }
  const telemetry::MetricSamples page = metrics();
  EXPECT_EQ(value(page, "loadgen_requests_total", {"outcome", "succeeded"}), succeeded);
  EXPECT_EQ(value(page, "loadgen_requests_total", {"outcome", "failed"}), failed);
  EXPECT_EQ(value(page, "loadgen_requests_total", {"outcome", "abandoned"}), 0);
  EXPECT_GT(failed, 0);
  EXPECT_EQ(value(page, "loadgen_conversations_started_total"), starts);
  EXPECT_EQ(value(page, "loadgen_output_tokens_total"), tokens);
  EXPECT_EQ(value(page, "loadgen_in_flight"), 0);
  EXPECT_EQ(value(page, "loadgen_concurrency"), 0);
  EXPECT_EQ(value(page, "loadgen_missing_usage_total"), 0);
  EXPECT_EQ(value(page, "loadgen_ttft_all_seconds_count"), succeeded);
  EXPECT_EQ(value(page, "loadgen_tpot_seconds_count"), succeeded);
  EXPECT_EQ(value(page, "loadgen_itl_seconds_count"), gaps);  // pooled: every gap
  EXPECT_EQ(value(page, "loadgen_request_itl_seconds_count"), succeeded);
  EXPECT_NEAR(value(page, "loadgen_latency_seconds_sum"), latency_s, 1e-6);
  // The live figure starts when the request is handed over, the sample when the socket took it: never later.
  double ttft_sum = 0;
  for (const double s : ttft_s) ttft_sum += s;
  EXPECT_GE(value(page, "loadgen_ttft_all_seconds_sum") + 1e-9, ttft_sum);
  const double p50 = value(page, "loadgen_ttft_all_seconds", {"quantile", "0.5"});
  const double p99 = value(page, "loadgen_ttft_all_seconds", {"quantile", "0.99"});
  EXPECT_GT(p50, 0);
  EXPECT_LE(p50, value(page, "loadgen_ttft_all_seconds", {"quantile", "0.95"}));
  EXPECT_LE(p99, value(page, "loadgen_ttft_all_seconds_sum"));
  EXPECT_GE(value(page, "loadgen_loop_delay_seconds_max"), value(page, "loadgen_loop_delay_seconds_p99"));
}

TEST_F(ControlTest, MissingUsageIsSaidInStatusAndMetrics) {
  serve([](std::size_t, auto exchange) { answer(*exchange, {"a", "b"}, false); });
  start(1);
  await([&] { return server_->requests().size() >= 3; });
  stop(true);
  const double succeeded = static_cast<double>(take_samples().size());
  const telemetry::MetricSamples page = metrics();
  EXPECT_EQ(value(page, "loadgen_missing_usage_total"), succeeded);
  EXPECT_EQ(value(page, "loadgen_output_tokens_total"), 2 * succeeded);
  EXPECT_EQ(value(page, "loadgen_tpot_seconds_count"), succeeded);  // of two chunks, one token each
}

TEST(ControlCommands, AreParsedStrictly) {
  const Result<StartCommand> command = parse_start_command(R"({"seed":18446744073709551615,"concurrency":160})");
  ASSERT_TRUE(command.has_value());
  EXPECT_EQ(command->concurrency, 160U);
  EXPECT_EQ(command->seed, 18446744073709551615ULL);
  EXPECT_FALSE(parse_start_command(R"({"concurrency":1})")->seed.has_value());
  EXPECT_FALSE(parse_start_command("[]").has_value());
  EXPECT_FALSE(parse_start_command(R"({"concurrency":1000001})").has_value());
  EXPECT_FALSE(parse_start_command(R"({"concurrency":-1})").has_value());
  EXPECT_TRUE(*parse_stop_command(""));
  EXPECT_TRUE(*parse_stop_command("{}"));
  EXPECT_FALSE(*parse_stop_command(R"({"drain":false})"));
  EXPECT_FALSE(parse_stop_command("no").has_value());
}

}  // namespace
}  // namespace kvist::loadgen::control_test

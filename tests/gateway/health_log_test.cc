#include "kvist/gateway/health_log.h"

#include <gtest/gtest.h>

namespace kvist::gateway::health_log_test {
namespace {

class HealthLogTest : public ::testing::Test {
 protected:
  std::string line_at(int milliseconds) {
    return log_.next_line(fleet_.worker(worker_), start_ + std::chrono::milliseconds(milliseconds)).value_or("");
  }

  dispatch::Fleet fleet_{{"w"}, {.failures_to_unhealthy = 3}};
  WorkerId worker_{0};
  TimePoint start_{std::chrono::seconds(100)};
  HealthLog log_;
};

TEST_F(HealthLogTest, AWorkerThatWasNeverWellIsNamedOnce) {
  EXPECT_EQ(line_at(0), "") << "it was not asked yet";
  for (int i = 0; i < 5; ++i) fleet_.on_failure(worker_, "connection refused", start_);
  EXPECT_EQ(line_at(100), "w is unhealthy: connection refused");
  fleet_.on_failure(worker_, "connection refused", start_);
  EXPECT_EQ(line_at(5'000), "");
  fleet_.on_success(worker_, start_);
  EXPECT_EQ(line_at(6'000), "w is healthy");
}

TEST_F(HealthLogTest, EachChangeHasALineWhoeverFoundIt) {
  fleet_.on_success(worker_, start_);
  EXPECT_EQ(line_at(0), "w is healthy");
  fleet_.on_server_error(worker_, "status 500", start_);
  EXPECT_EQ(line_at(2'000), "w is suspect: status 500");
  fleet_.on_failure(worker_, "reset", start_);
  EXPECT_EQ(line_at(4'000), "") << "it is still suspect";
  for (int i = 0; i < 2; ++i) fleet_.on_failure(worker_, "refused", start_);
  EXPECT_EQ(line_at(4'000), "w is unhealthy: refused");
}

TEST_F(HealthLogTest, FastChangesShareALine) {
  fleet_.on_success(worker_, start_);
  EXPECT_EQ(line_at(0), "w is healthy");
  for (int i = 0; i < 50; ++i) {
    fleet_.on_server_error(worker_, "status 500", start_);
    fleet_.on_success(worker_, start_);
    EXPECT_EQ(line_at(10 + i), "");
  }
  EXPECT_EQ(line_at(1'000), "w is healthy (after 100 changes; its last failure: status 500)");
  fleet_.on_server_error(worker_, "status 502", start_);
  fleet_.on_success(worker_, start_);
  fleet_.on_failure(worker_, "reset", start_);
  EXPECT_EQ(line_at(3'000), "w is suspect: reset (after 3 changes)");
}

TEST_F(HealthLogTest, ARemovalIsNoFailure) {
  fleet_.on_success(worker_, start_);
  EXPECT_EQ(line_at(0), "w is healthy");
  fleet_.retire(worker_, start_);
  EXPECT_EQ(line_at(2'000), "");
}

}  // namespace
}  // namespace kvist::gateway::health_log_test

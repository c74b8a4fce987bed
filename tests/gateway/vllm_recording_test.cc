// The page of /metrics of a real vLLM (tests/golden/vllm/metrics.txt), as the gateway's monitor reads it.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "kvist/gateway/worker_monitor.h"

namespace kvist::gateway::vllm_recording_test {
namespace {

TEST(VllmRecording, ThePageOfMetricsTellsLimitsAndLoad) {
  std::ifstream file(KVIST_SOURCE_DIR "/tests/golden/vllm/metrics.txt");
  ASSERT_TRUE(file.is_open());
  const std::string page{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  const auto report = read_worker_report(page);
  ASSERT_TRUE(report) << report.error().message;
  // Its batch slots and token budget are not on the page.
  EXPECT_EQ(report->limits, (routing::EngineLimits{.block_size = 32, .kv_blocks = 24}));
  EXPECT_EQ(report->running, 0);
  EXPECT_EQ(report->waiting, 0);
  EXPECT_GE(report->kv_usage, 0);
  EXPECT_LE(report->kv_usage, 1);
  ASSERT_TRUE(report->process_start_s);
  EXPECT_GT(*report->process_start_s, 1.7e9);
}

}  // namespace
}  // namespace kvist::gateway::vllm_recording_test

#include "kvist/engine/cpu/device_driver.h"

#include <gtest/gtest.h>

#include <map>
#include <semaphore>

#include "engine/scripted_executor.h"

namespace kvist::engine::cpu::device_driver_test {
namespace {

/// Polls whenever the driver says so, until every request has ended.
class DeviceDriverTest : public ::testing::Test {
 protected:
  void SetUp() override {
    driver_.set_wake([this] { woken_.release(); });
  }
  void submit(std::uint64_t id, std::uint32_t prompt_tokens, std::uint32_t max_tokens) {
    Request request{.id = RequestId(id), .prompt = {}, .max_tokens = max_tokens, .cache_salt = {}};
    for (std::uint32_t i = 0; i < prompt_tokens; ++i) request.prompt.emplace_back(i);
    ASSERT_TRUE(driver_.submit(std::move(request), {}).has_value());
  }
  void poll() {
    driver_.poll({}, outputs_);
    for (const RequestOutput& output : outputs_.outputs) {
      tokens_[output.id.value()] += static_cast<std::uint32_t>(output.tokens.size());
      if (output.finish) finished_[output.id.value()] = *output.finish;
    }
  }
  void run() {
    poll();
    while (!driver_.core().idle()) {
      woken_.acquire();
      poll();
    }
  }

  std::counting_semaphore<> woken_{0};
  DeviceDriver driver_{{.model = "m", .block_size = 4, .kv_blocks = 256, .max_batch_size = 8, .max_num_tokens = 32},
                       std::make_unique<ScriptedExecutor>()};
  StepOutputs outputs_;
  std::map<std::uint64_t, std::uint32_t> tokens_;
  std::map<std::uint64_t, FinishReason> finished_;
};

TEST_F(DeviceDriverTest, RunsRequestsToTheirEnd) {
  for (std::uint64_t id = 1; id <= 12; ++id) submit(id, 10 + static_cast<std::uint32_t>(id), 7);
  run();
  EXPECT_EQ(finished_.size(), 12U);
  for (const auto& [id, tokens] : tokens_) EXPECT_EQ(tokens, 7U) << id;
  EXPECT_EQ(driver_.stats().finished, 12U);
}

TEST_F(DeviceDriverTest, WhatComesAndGoesDuringAStepTakesEffectAfterIt) {
  submit(1, 20, 50);
  poll();
  submit(2, 20, 5);
  driver_.abort(RequestId(1));
  run();
  EXPECT_EQ(finished_.at(1), FinishReason::kAborted);
  EXPECT_EQ(finished_.at(2), FinishReason::kLength);
  EXPECT_EQ(tokens_.at(2), 5U);
}

TEST_F(DeviceDriverTest, GoesAwayWithAStepUnderWay) {
  submit(1, 20, 50);
  poll();
}

TEST_F(DeviceDriverTest, NothingToDoIsNoStep) {
  poll();
  poll();
  EXPECT_EQ(driver_.stats().steps, 0U);
}

}  // namespace
}  // namespace kvist::engine::cpu::device_driver_test

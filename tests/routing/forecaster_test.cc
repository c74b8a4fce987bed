#include "kvist/routing/forecaster.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "kvist/base/random.h"

namespace kvist::routing::forecaster_test {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr EngineLimits kLimits{.block_size = 32, .kv_blocks = 1'000, .max_batch_size = 4, .max_num_tokens = 8'192};
constexpr spec::StepTimeSpec kPrior{.fixed = microseconds(20'000),
                                    .per_prefill_token = nanoseconds(100'000),
                                    .per_sequence = microseconds(1'000),
                                    .per_kv_token_ns = 0};

class ForecasterTest : public ::testing::Test {
 protected:
  Forecast forecast(std::uint32_t uncached = 1'000, std::uint32_t new_blocks = 0) {
    return forecaster_.forecast(kWorker, kLimits,
                                {.prompt_tokens = 2'000, .uncached_tokens = uncached, .new_blocks = new_blocks}, now_);
  }
  RequestHandle route(std::uint32_t uncached = 1'000, std::uint32_t known = 0) {
    const RequestHandle handle = requests_.insert({.id = RequestId(++last_),
                                                   .worker = kWorker,
                                                   .prompt_tokens = 2'000,
                                                   .uncached_tokens = uncached,
                                                   .streams = streams_});
    RoutedRequest& request = *requests_.find(handle);
    forecaster_.on_routed(request, forecast(uncached), kLimits, known, now_);
    loads_.add(request);
    return handle;
  }
  void first_token(RequestHandle request) {
    forecaster_.on_first_token(*requests_.find(request), now_);
    loads_.on_first_token(*requests_.find(request));
  }
  void token(RequestHandle request) {
    loads_.on_progress(*requests_.find(request), 1);
    forecaster_.on_progress(*requests_.find(request), 1, now_);
  }
  /// A step of all that decode.
  void step(std::span<const RequestHandle> requests, milliseconds time) {
    now_ += time;
    for (const RequestHandle request : requests) token(request);
  }

  static constexpr WorkerId kWorker{0};
  RoutedRequests requests_;
  LoadTracker loads_{2};
  Forecaster forecaster_{loads_, 2, kPrior, 32};
  bool streams_ = false;
  TimePoint now_{std::chrono::seconds(1)};
  std::uint64_t last_ = 0;
};

// As many as come in the time that each is under way (Little's law): 50 a second, for what a request without a wait and
// without prefill needs.
TEST_F(ForecasterTest, AsManyAreInTransitAsComeInTheTimeThatTheyNeed) {
  EXPECT_EQ(forecaster_.in_transit(now_), 0);
  double needed_ms = 0;
  for (int i = 0; i < 3'000; ++i) {
    now_ += milliseconds(20);
    const Forecast expected = forecast();
    needed_ms = expected.ttft_ms - expected.wait_ms() - expected.prefill_ms;
    const RequestHandle request = route();
    first_token(request);
    loads_.remove(*requests_.find(request));
    forecaster_.on_finished(*requests_.find(request), true, now_);
    requests_.erase(request);
  }
  ASSERT_GT(needed_ms, 0);
  EXPECT_NEAR(forecaster_.in_transit(now_), needed_ms / 20, 0.1 * needed_ms / 20);
  now_ += std::chrono::seconds(60);
  EXPECT_LT(forecaster_.in_transit(now_), 0.01);
}

TEST_F(ForecasterTest, ALongPromptHoldsUpThoseWhoComeForTheCache) {
  const auto come = [&](std::uint32_t uncached, std::uint32_t known) {
    const RequestHandle handle = route(uncached, known);
    forecaster_.on_finished(*requests_.find(handle), false, now_);
    loads_.remove(*requests_.find(handle));
    requests_.erase(handle);
  };
  EXPECT_EQ(forecast().held_up_ms, 0) << "nobody comes for it";
  come(1'000, 0);
  EXPECT_EQ(forecast().held_up_ms, 0) << "a prompt that nobody knew will not return";
  come(1'000, 1'000);
  const double one = forecast().held_up_ms;
  EXPECT_GT(one, 0);
  come(2'000, 1'000);  // what it came for is cached elsewhere; those after it will find it here
  EXPECT_DOUBLE_EQ(forecast().held_up_ms, 2 * one);
  EXPECT_LT(forecast(100).held_up_ms, one / 20) << "a short prompt hardly holds anyone up";
}

TEST_F(ForecasterTest, WhatTheCacheAloneKeepsIsEvictedWhereMemoryIsShort) {
  const auto hold = [&](std::uint64_t blocks) {
    std::vector<kv::BlockHash> hashes;
    for (std::uint64_t i = 0; i < blocks; ++i) hashes.emplace_back(mix_seed({blocks, i}));
    const RequestHandle handle =
        requests_.insert({.id = RequestId(++last_),
                          .worker = kWorker,
                          .prompt_tokens = static_cast<std::uint32_t>(32 * blocks),
                          .blocks = std::make_shared<const std::vector<kv::BlockHash>>(std::move(hashes))});
    loads_.add(*requests_.find(handle));
  };
  hold(500);
  EXPECT_DOUBLE_EQ(forecast(0, 62).prefill_ms, 0);
  hold(450);
  const Forecast waiting = forecast(0, 62);  // cached whole, and its 62 blocks are more than there is room for
  EXPECT_FALSE(waiting.has_slot);
  EXPECT_EQ(waiting.lost_tokens, 62U * 32);
  EXPECT_GT(waiting.prefill_ms, 0);
  EXPECT_EQ(forecast(1'000, 62).lost_tokens, 1'000U) << "what it lacks cannot be lost";
  EXPECT_DOUBLE_EQ(forecast(0, 0).prefill_ms, 0) << "a prompt that others hold is not evicted";
}

TEST_F(ForecasterTest, WhatIsDisplacedIsComputedAgain) {
  const auto displaced = [&](std::uint64_t blocks) {
    return forecaster_.forecast(kWorker, kLimits, {.prompt_tokens = 2'000, .displaced_blocks = blocks}, now_)
        .displaced_ms;
  };
  EXPECT_DOUBLE_EQ(displaced(0), 0);
  EXPECT_DOUBLE_EQ(displaced(1'000), forecast(2'000).prefill_ms) << "at most as much as the prompt";
  EXPECT_GT(displaced(10), 0);
  EXPECT_LT(displaced(10), displaced(20));
}

TEST_F(ForecasterTest, AnIdleWorkerComputesThePromptAtOnce) {
  const Forecast f = forecast();
  EXPECT_TRUE(f.has_slot);
  EXPECT_DOUBLE_EQ(f.slot_wait_ms, 0);
  EXPECT_DOUBLE_EQ(f.queue_ms, 0);
  EXPECT_NEAR(f.prefill_ms, 100 + 0.1 / 10'240 * 1'000 * 1'500, 1e-9);  // 1,000 tokens look back at 1,500 on average
  EXPECT_DOUBLE_EQ(f.fleet_prefill_ms, f.prefill_ms);
  EXPECT_DOUBLE_EQ(f.step_with_ms, 21);
  EXPECT_DOUBLE_EQ(f.crowding_ms, 0);
  EXPECT_GT(f.ttft_ms, 100);
}

TEST_F(ForecasterTest, AQueueLastsUntilFirstTokensAreSeen) {
  streams_ = true;
  const double prefill_ms = forecast().prefill_ms;
  const RequestHandle first = route();
  route();
  EXPECT_NEAR(forecast().queue_ms, 2 * prefill_ms, 1e-4);
  now_ += milliseconds(50);
  EXPECT_NEAR(forecast().queue_ms, 2 * prefill_ms - 50, 1e-4);
  now_ += milliseconds(100);  // the first should be done by now
  EXPECT_NEAR(forecast().queue_ms, prefill_ms, 1e-4) << "and the second has not begun";
  now_ += milliseconds(900);
  EXPECT_NEAR(forecast().queue_ms, prefill_ms, 1e-4) << "nor has it now";
  first_token(first);
  EXPECT_GT(forecast().queue_ms, 0);
}

// An engine that computes a long prompt beside short ones: each short one's first token comes shortly before the long
// one's, which says nothing of how long that took.
TEST_F(ForecasterTest, APromptThatIsOvertakenTeachesNothing) {
  streams_ = true;
  const double before_ms = forecaster_.model(kWorker).prefill_ms({.uncached = 1'000});
  for (int i = 0; i < 5; ++i) {
    const RequestHandle long_one = route(2'000);
    for (int j = 0; j < 20; ++j) {
      const RequestHandle short_one = route(10);
      now_ += milliseconds(200);
      first_token(short_one);
      forecaster_.on_finished(*requests_.find(short_one), true, now_);
      loads_.remove(*requests_.find(short_one));
      requests_.erase(short_one);
    }
    now_ += milliseconds(60);
    EXPECT_DOUBLE_EQ(forecast().queue_ms, 0);
    first_token(long_one);
    forecaster_.on_finished(*requests_.find(long_one), true, now_);
    loads_.remove(*requests_.find(long_one));
    requests_.erase(long_one);
  }
  EXPECT_NEAR(forecaster_.model(kWorker).prefill_ms({.uncached = 1'000}), before_ms, 0.3 * before_ms);
}

// The tokens of several choices come one after the other in no time, and are one step.
TEST_F(ForecasterTest, ATokenOfEachChoiceIsAStep) {
  const RequestHandle request = route();
  requests_.find(request)->choices = 8;
  first_token(request);
  for (int i = 0; i < 200; ++i) {
    now_ += milliseconds(30);
    for (int choice = 0; choice < 8; ++choice, now_ += microseconds(5)) token(request);
  }
  EXPECT_NEAR(forecaster_.model(kWorker).step_ms(1, 0), 30.04, 0.5);
  EXPECT_EQ(requests_.find(request)->output_tokens, 1'600U);
  EXPECT_EQ(requests_.find(request)->answer_tokens(), 200U);
  for (int i = 0; i < 40; ++i) forecaster_.on_finished(*requests_.find(request), true, now_);
  EXPECT_LT(forecaster_.output_lengths().mean_tokens(), 300) << "each choice has 200";
}

TEST_F(ForecasterTest, AnEndedRequestLeavesTheQueue) {
  const RequestHandle first = route(4'000);
  forecaster_.on_finished(*requests_.find(first), false, now_);
  EXPECT_DOUBLE_EQ(forecast().queue_ms, 0);
  EXPECT_DOUBLE_EQ(forecaster_.prefill_under_way_ms(kWorker), 0);
}

TEST_F(ForecasterTest, AWholeAnswerIsInTheQueueUntilItsPromptMustBeComputed) {
  const double prefill_ms = forecast().prefill_ms;
  const RequestHandle whole = route();
  EXPECT_NEAR(forecast().queue_ms, prefill_ms, 1e-4);
  now_ += milliseconds(1'000);  // its answer is being decoded, no token of it is seen
  EXPECT_DOUBLE_EQ(forecast().queue_ms, 0);
  forecaster_.on_whole_answer(*requests_.find(whole), {.tokens = 30, .prompt_tokens = 2'000}, now_);
  EXPECT_DOUBLE_EQ(forecaster_.prefill_under_way_ms(kWorker), 0);
}

TEST_F(ForecasterTest, ANewRequestDelaysTheOnesThatDecode) {
  first_token(route());
  first_token(route());
  EXPECT_DOUBLE_EQ(forecast().crowding_ms, 2 * 1.0);  // 1 ms per sequence
}

TEST_F(ForecasterTest, AFullWorkerHasAWait) {
  for (int i = 0; i < 3; ++i) first_token(route());
  EXPECT_TRUE(forecast().has_slot);
  EXPECT_FALSE(forecast().scarce) << "the last of four slots is as good as any other";
  first_token(route());
  const Forecast full = forecast();
  EXPECT_FALSE(full.has_slot);
  EXPECT_TRUE(full.scarce);
  EXPECT_GT(full.slot_wait_ms, 0);
  first_token(route());
  EXPECT_GT(forecast().slot_wait_ms, full.slot_wait_ms) << "two have to end now";
}

TEST_F(ForecasterTest, TheLastOfManySlotsAreScarce) {
  const auto room = [&] { return forecaster_.room(kWorker, {.max_batch_size = 128}, {.prompt_tokens = 100}, now_); };
  for (int i = 0; i < 125; ++i) first_token(route());
  EXPECT_FALSE(room().scarce) << "two would be left";
  first_token(route());
  EXPECT_TRUE(room().scarce);
  EXPECT_TRUE(room().has_slot);
}

TEST_F(ForecasterTest, KvMemoryLimitsAWorkerToo) {
  first_token(route());
  EXPECT_TRUE(forecast(1'000, 500).has_slot);
  const Forecast too_much = forecast(1'000, 995);
  EXPECT_FALSE(too_much.has_slot);
  EXPECT_GT(too_much.slot_wait_ms, 0);
}

TEST_F(ForecasterTest, StepsAreLearnedFromTheGapsOfOneRequestWhileNobodyPrefills) {
  const RequestHandle a = route();
  const RequestHandle b = route();
  first_token(a);
  first_token(b);
  for (int i = 0; i < 60; ++i) {
    now_ += milliseconds(44);
    token(a);
    token(b);
  }
  EXPECT_NEAR(forecaster_.model(kWorker).step_ms(2, 0), 44, 1);
  EXPECT_EQ(forecaster_.model(WorkerId(1)).step_error().observations, 0U);

  const std::uint64_t seen = forecaster_.model(kWorker).step_error().observations;
  route();  // a prompt is computed beside them: these gaps are no decode steps
  for (int i = 0; i < 5; ++i) {
    now_ += milliseconds(300);
    token(a);
    token(b);
  }
  EXPECT_EQ(forecaster_.model(kWorker).step_error().observations, seen);
}

// An engine that reserves memory for the longest answers lets in less than its blocks allow. It looks free; but it goes
// on with decoding alone while a request waits.
TEST_F(ForecasterTest, AnEngineThatLeavesARequestWaitingHasNoRoom) {
  streams_ = true;
  const std::vector<RequestHandle> running = {route(), route()};
  for (const RequestHandle request : running) first_token(request);
  for (int i = 0; i < 200; ++i) step(running, milliseconds(22));
  ASSERT_TRUE(forecast().has_slot);
  const RequestHandle waiting = route();
  for (int i = 0; i < 3; ++i) step(running, milliseconds(22));
  EXPECT_TRUE(forecast().has_slot) << "it is on its way";
  for (int i = 0; i < 60; ++i) step(running, milliseconds(22));
  const Forecast stalled = forecast();
  EXPECT_FALSE(stalled.has_slot);
  EXPECT_TRUE(stalled.scarce);
  EXPECT_GT(stalled.slot_wait_ms, 1'000) << "two have to end";
  const std::uint64_t seen = forecaster_.model(kWorker).first_token_error().observations;
  first_token(waiting);
  EXPECT_EQ(forecaster_.model(kWorker).first_token_error().observations, seen) << "that was no slow prefill";
  EXPECT_TRUE(forecaster_.room(kWorker, {}, {.prompt_tokens = 100}, now_).has_slot) << "it lets requests in";
}

TEST_F(ForecasterTest, ALongPromptIsNoLackOfRoom) {
  streams_ = true;
  const std::vector<RequestHandle> running = {route(), route()};
  for (const RequestHandle request : running) first_token(request);
  for (int i = 0; i < 200; ++i) step(running, milliseconds(22));
  route(2'000);
  for (int i = 0; i < 60; ++i) step(running, milliseconds(150));  // parts of the prompt are computed in each
  EXPECT_TRUE(forecast().has_slot);
}

// Engines compute a long prompt in parts. A part may be hardly longer than decoding, and is no sign of a request that
// waits.
TEST_F(ForecasterTest, StepsWithShortPartsOfAPromptAreNoLackOfRoom) {
  streams_ = true;
  std::vector<RequestHandle> running;
  for (int i = 0; i < 2; ++i) {
    running.push_back(route());
    now_ += milliseconds(120);
    first_token(running.back());
  }
  for (int i = 0; i < 200; ++i) step(running, milliseconds(22));
  const double ttft_ms = forecast(2'000).ttft_ms;
  route(2'000);
  const int steps = static_cast<int>(ttft_ms / 11);
  ASSERT_GE(steps, 2 * static_cast<int>(Admission::kSteps));
  for (int i = 0; i < steps; ++i) step(running, milliseconds(11));
  EXPECT_TRUE(forecast().has_slot);
  for (int i = 0; i < 200; ++i) step(running, milliseconds(11));
  EXPECT_FALSE(forecast().has_slot) << "now it would have been computed";
}

TEST_F(ForecasterTest, AnAnswerInOnePieceIsNotWaitedFor) {
  streams_ = true;
  const std::vector<RequestHandle> running = {route(), route()};
  for (const RequestHandle request : running) first_token(request);
  for (int i = 0; i < 200; ++i) step(running, milliseconds(22));
  streams_ = false;
  route();
  for (int i = 0; i < 60; ++i) step(running, milliseconds(22));
  EXPECT_TRUE(forecast().has_slot) << "nobody knows whether it is being decoded";
}

// Eight requests with answers of 8,000 tokens fill what eight with answers of 400 do not.
TEST_F(ForecasterTest, LongAnswersFillTheMemory) {
  const EngineLimits limits{.block_size = 32, .kv_blocks = 1'500, .max_batch_size = 64, .max_num_tokens = 8'192};
  const auto room = [&] { return forecaster_.room(kWorker, limits, {.prompt_tokens = 100, .new_blocks = 4}, now_); };
  const auto answer = [&](std::uint64_t tokens) {
    const RequestHandle handle = route();
    RoutedRequest& request = *requests_.find(handle);
    first_token(handle);
    loads_.on_progress(request, tokens);
    forecaster_.on_progress(request, tokens, now_);
    forecaster_.on_finished(request, true, now_);
    loads_.remove(request);
    requests_.erase(handle);
  };
  for (int i = 0; i < 8; ++i) first_token(route());
  EXPECT_TRUE(room().has_slot);
  EXPECT_FALSE(room().scarce);
  for (int i = 0; i < 100; ++i) answer(8'000);
  EXPECT_FALSE(room().has_slot);
  EXPECT_TRUE(room().lacks_memory);
}

TEST_F(ForecasterTest, AWaitForASlotIsNotTakenForSlowPrefill) {
  for (int i = 0; i < 4; ++i) first_token(route());
  const std::uint64_t seen = forecaster_.model(kWorker).first_token_error().observations;
  const RequestHandle queued = route();
  now_ += std::chrono::seconds(20);
  first_token(queued);
  EXPECT_EQ(forecaster_.model(kWorker).first_token_error().observations, seen);
}

TEST_F(ForecasterTest, TheMeanLoadFollowsSlowly) {
  for (int i = 0; i < 4; ++i) route();
  EXPECT_LT(forecast().mean_requests, 0.1);
  now_ += std::chrono::seconds(30);
  EXPECT_NEAR(forecast().mean_requests, 2, 0.01);
}

TEST_F(ForecasterTest, TheTimeSinceTheLastRequestCountsUpToASecond) {
  EXPECT_EQ(forecast().since_routed_ms, 1'000) << "there was none";
  route();
  EXPECT_EQ(forecast().since_routed_ms, 0);
  now_ += std::chrono::milliseconds(250);
  EXPECT_EQ(forecast().since_routed_ms, 250);
  now_ += std::chrono::seconds(5);
  EXPECT_EQ(forecast().since_routed_ms, 1'000);
}

}  // namespace
}  // namespace kvist::routing::forecaster_test

#include "kvist/perfmodel/step_time.h"

#include <gtest/gtest.h>

namespace kvist::perfmodel {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

TEST(StepTime, IsZeroForAnEmptyStep) {
  EXPECT_EQ(step_time({}, {}), Duration::zero());
}

TEST(StepTime, AddsItsFourTerms) {
  const spec::StepTimeSpec model{.fixed = nanoseconds(1'000'000),
                                 .per_prefill_token = nanoseconds(1'000),
                                 .per_sequence = nanoseconds(10),
                                 .per_kv_token_ns = 0.5};
  EXPECT_EQ(step_time(model, {.prefill_tokens = 3, .sequences = 2, .kv_tokens_read = 8}), nanoseconds(1'003'024));
}

TEST(StepTime, OfTheDefaultModelIsThatOfTheGpuItDescribes) {
  const spec::StepTimeSpec model;
  // 32 sequences of 6,100 tokens decode: 21 + 32 x 0.07 + 195,200 x 0.00004 = 21 + 2.24 + 7.808 ms.
  EXPECT_EQ(step_time(model, {.sequences = 32, .kv_tokens_read = 32 * 6'100}), nanoseconds(31'048'000));
  // A whole prompt of 3,800 tokens in one step: 21 + 357.2 + 0.07 + 0.152 ms.
  EXPECT_EQ(step_time(model, {.prefill_tokens = 3'800, .sequences = 1, .kv_tokens_read = 3'800}),
            nanoseconds(378'422'000));
}

TEST(StepTime, RoundsThePartBelowANanosecondOnce) {
  const spec::StepTimeSpec model{.fixed = nanoseconds(0),
                                 .per_prefill_token = nanoseconds(0),
                                 .per_sequence = nanoseconds(0),
                                 .per_kv_token_ns = 0.3};
  EXPECT_EQ(step_time(model, {.sequences = 1, .kv_tokens_read = 5}), nanoseconds(2));  // 1.5
  EXPECT_EQ(step_time(model, {.sequences = 1, .kv_tokens_read = 10'000'000'000}), milliseconds(3'000));
}

}  // namespace
}  // namespace kvist::perfmodel

#include "kvist/telemetry/trace_context.h"

#include <gtest/gtest.h>

namespace kvist::telemetry::trace_context_test {
namespace {

constexpr std::string_view kField = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

TEST(TraceContext, ReadsTheFieldOfTheStandard) {
  const auto context = parse_trace_parent(kField);
  ASSERT_TRUE(context);
  EXPECT_EQ(context->trace.hex(), "4bf92f3577b34da6a3ce929d0e0e4736");
  EXPECT_EQ(context->span.hex(), "00f067aa0ba902b7");
  EXPECT_TRUE(context->sampled);
  EXPECT_EQ(to_trace_parent(*context), kField);
}

TEST(TraceContext, OfLaterVersionsItReadsWhatIsKnown) {
  const auto context = parse_trace_parent("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-02-what-comes");
  ASSERT_TRUE(context);
  EXPECT_FALSE(context->sampled);
  EXPECT_EQ(to_trace_parent(*context), "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00");
}

TEST(TraceContext, AnythingElseIsIgnored) {
  for (const std::string_view text : {"", "00", "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
                                      "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
                                      "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
                                      "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
                                      "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
                                      "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0",
                                      "00-4bf92f3577b34da6a3ce929d0e0e473600f067aa0ba902b7-01",
                                      "00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}) {
    EXPECT_FALSE(parse_trace_parent(text)) << text;
  }
}

}  // namespace
}  // namespace kvist::telemetry::trace_context_test

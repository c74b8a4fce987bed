#include "kvist/workload/trace_outcome.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvist::workload::trace_outcome_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TimePoint at(int seconds) {
  return TimePoint(std::chrono::seconds(seconds));
}

/// A trace of three requests with answers of 100, 200 and 0 tokens.
TraceOutcome three_requests() {
  Trace trace;
  for (const std::uint32_t tokens : {100U, 200U, 0U}) {
    trace.requests.push_back({.input_tokens = 10, .output_tokens = tokens, .hash_ids = {}});
  }
  return TraceOutcome(std::make_shared<const Trace>(std::move(trace)));
}

TurnSample turn(std::uint64_t place, std::uint32_t tokens, int ended) {
  TurnSample turn;
  turn.conversation = ConversationId(place);
  turn.completion_tokens = tokens;
  turn.ended = at(ended);
  return turn;
}

TEST(TraceOutcome, NothingIsSaidOfATraceThatWentOutAsRecorded) {
  TraceOutcome outcome = three_requests();
  outcome.add({turn(0, 100, 4), turn(1, 200, 21)});
  outcome.add({turn(2, 1, 5)});
  EXPECT_THAT(outcome.remarks(at(0), at(20)), IsEmpty());
  TraceOutcome none(nullptr);
  none.add({turn(7, 1, 1)});
  EXPECT_THAT(none.remarks(at(0), at(20)), IsEmpty());
}

TEST(TraceOutcome, ATraceThatEndedEarlyIsRemarked) {
  TraceOutcome outcome = three_requests();
  outcome.add({turn(0, 100, 14), turn(1, 200, 16), turn(2, 1, 15)});
  EXPECT_THAT(outcome.remarks(at(10), at(30)),
              ElementsAre(AllOf(HasSubstr("ended 6.0 s after"), HasSubstr("up to 20.0 s"))));
}

TEST(TraceOutcome, RequestsThatWereNotSentAreCounted) {
  TraceOutcome outcome = three_requests();
  outcome.add({turn(0, 100, 14)});
  EXPECT_THAT(outcome.remarks(at(10), at(30)), ElementsAre(HasSubstr("1 of the trace's 3 requests were sent")));
}

TEST(TraceOutcome, AnswersThatWereCutAreCounted) {
  TraceOutcome outcome = three_requests();
  TurnSample failed = turn(2, 0, 40);
  failed.outcome = TurnOutcome::kFailed;
  outcome.add({turn(0, 99, 40), turn(1, 50, 40), failed});
  EXPECT_THAT(outcome.remarks(at(10), at(30)),
              ElementsAre(AllOf(HasSubstr("2 of 2 answers are shorter"), HasSubstr("request 1 (from 0): 50 of 200"))));
  TraceOutcome without_usage = three_requests();
  without_usage.add({turn(0, 0, 40), turn(1, 0, 40), turn(2, 0, 40)});
  EXPECT_THAT(without_usage.remarks(at(10), at(30)), IsEmpty());
}

}  // namespace
}  // namespace kvist::workload::trace_outcome_test

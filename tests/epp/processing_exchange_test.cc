#include "kvist/epp/processing_exchange.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kvist/base/random.h"
#include "kvist/epp/ext_proc_codec.h"

namespace kvist::epp::processing_exchange_test {
namespace {

std::uint64_t below(RandomStream& random, std::int64_t bound) {
  return static_cast<std::uint64_t>(random.uniform_int(0, bound - 1));
}

constexpr std::size_t kMostBytes = 1'000'000;

ProcessingRequest request_headers(BodyMode request_mode = BodyMode::kFullDuplexStreamed,
                                  BodyMode response_mode = BodyMode::kFullDuplexStreamed, bool end = false) {
  ProcessingRequest message{.part = Part::kRequestHeaders, .end_of_stream = end};
  message.protocol = Protocol{.request_body = request_mode, .response_body = response_mode};
  message.headers.add(":method", "POST");
  message.headers.add(":path", "/v1/chat/completions");
  message.headers.add("x-request-id", "id-1");
  return message;
}
ProcessingRequest body(Part part, std::string bytes, bool end) {
  return {.part = part, .body = std::move(bytes), .end_of_stream = end};
}
ProcessingRequest answer_headers(std::string status, bool end = false, std::string details = {}) {
  ProcessingRequest message{.part = Part::kResponseHeaders, .end_of_stream = end, .code_details = std::move(details)};
  message.headers.add(":status", std::move(status));
  message.headers.add("content-type", "text/event-stream");
  return message;
}

TEST(ProcessingExchange, InFullDuplexTheHeadersWaitForTheBodyWhichThenComesBack) {
  ProcessingExchange exchange(kMostBytes);
  EXPECT_TRUE(exchange.on_message(request_headers()).replies.empty());
  EXPECT_TRUE(exchange.on_message(body(Part::kRequestBody, "{\"a\":", false)).replies.empty());
  const ExchangeActions whole = exchange.on_message(body(Part::kRequestBody, "1}", true));
  ASSERT_TRUE(whole.request);
  EXPECT_EQ(whole.request->method, "POST");
  EXPECT_EQ(whole.request->target, "/v1/chat/completions");
  EXPECT_EQ(whole.request->body, "{\"a\":1}");
  EXPECT_EQ(whole.request->headers.fields().size(), 1U) << "pseudo-headers are no fields";
  const ExchangeActions picked = exchange.on_picked({"1.1.1.1:1", "2.2.2.2:2"}, whole.request->body);
  EXPECT_EQ(picked.replies, (std::vector<std::string>{write_destination(Part::kRequestHeaders, "1.1.1.1:1,2.2.2.2:2"),
                                                      write_body_part(Part::kRequestBody, "{\"a\":1}", true)}));
}

TEST(ProcessingExchange, ALongBodyComesBackInParts) {
  ProcessingExchange exchange(kMostBytes);
  (void)exchange.on_message(request_headers());
  const std::string text(2 * ProcessingExchange::kMostPartBytes + 1, 'x');
  ASSERT_TRUE(exchange.on_message(body(Part::kRequestBody, text, true)).request);
  const auto replies = exchange.on_picked({"1.1.1.1:1"}, text).replies;
  ASSERT_EQ(replies.size(), 4U);
  EXPECT_EQ(replies[3], write_body_part(Part::kRequestBody, "x", true));
}

TEST(ProcessingExchange, ABufferedBodyIsAnsweredWithTheDestination) {
  ProcessingExchange exchange(kMostBytes);
  EXPECT_EQ(exchange.on_message(request_headers(BodyMode::kBuffered)).replies,
            std::vector{write_continue(Part::kRequestHeaders)});
  ASSERT_TRUE(exchange.on_message(body(Part::kRequestBody, "{}", true)).request);
  EXPECT_EQ(exchange.on_picked({"1.1.1.1:1"}, "{}").replies,
            std::vector{write_destination(Part::kRequestBody, "1.1.1.1:1")});
}

TEST(ProcessingExchange, ARequestWithoutABodyIsPickedForByItsHeaders) {
  ProcessingExchange exchange(kMostBytes);
  const auto actions = exchange.on_message(request_headers(BodyMode::kNone, BodyMode::kStreamed, true));
  ASSERT_TRUE(actions.request);
  EXPECT_EQ(exchange.on_picked({"1.1.1.1:1"}, "").replies,
            std::vector{write_destination(Part::kRequestHeaders, "1.1.1.1:1")});
}

TEST(ProcessingExchange, TrailersEndARequestToo) {
  ProcessingExchange exchange(kMostBytes);
  (void)exchange.on_message(request_headers());
  (void)exchange.on_message(body(Part::kRequestBody, "{}", false));
  ASSERT_TRUE(exchange.on_message({.part = Part::kRequestTrailers}).request);
  EXPECT_EQ(exchange.on_picked({"1.1.1.1:1"}, "{}").replies,
            (std::vector<std::string>{write_destination(Part::kRequestHeaders, "1.1.1.1:1"),
                                      write_body_part(Part::kRequestBody, "{}", false),
                                      write_continue(Part::kRequestTrailers)}));
}

/// An exchange whose request was given to a worker.
ProcessingExchange served(BodyMode response_mode) {
  ProcessingExchange exchange(kMostBytes);
  (void)exchange.on_message(request_headers(BodyMode::kFullDuplexStreamed, response_mode));
  (void)exchange.on_message(body(Part::kRequestBody, "{}", true));
  (void)exchange.on_picked({"1.1.1.1:1"}, "{}");
  return exchange;
}

TEST(ProcessingExchange, TheAnswerGoesOnAtOnceAndIsReported) {
  for (const BodyMode mode : {BodyMode::kFullDuplexStreamed, BodyMode::kStreamed}) {
    ProcessingExchange exchange = served(mode);
    const auto head = exchange.on_message(answer_headers("200"));
    EXPECT_EQ(head.replies, std::vector{write_continue(Part::kResponseHeaders)});
    ASSERT_TRUE(head.answer && head.answer->head);
    EXPECT_EQ(head.answer->head->status, 200);
    EXPECT_EQ(head.answer->head->headers.find("content-type"), "text/event-stream");
    EXPECT_FALSE(head.answer->ended);
    const bool echoes = mode == BodyMode::kFullDuplexStreamed;
    const auto chunk = exchange.on_message(body(Part::kResponseBody, "data: 1\n\n", false));
    EXPECT_EQ(chunk.replies, std::vector{echoes ? write_body_part(Part::kResponseBody, "data: 1\n\n", false)
                                                : write_continue(Part::kResponseBody)});
    EXPECT_EQ(chunk.answer->body, "data: 1\n\n");
    const auto end = exchange.on_message(body(Part::kResponseBody, "", true));
    EXPECT_TRUE(end.answer->ended);
    EXPECT_EQ(end.replies.size(), 1U);
    EXPECT_TRUE(exchange.is_over());
    EXPECT_TRUE(exchange.on_message(body(Part::kResponseBody, "more", true)).replies.empty());
  }
}

TEST(ProcessingExchange, AnAnswerThatTheProxyMadeUpIsNoneOfTheWorkers) {
  const struct {
    std::string details;
    std::optional<ErrorCode> lost;
  } cases[] = {
      {"upstream_reset_before_response_started{connection_failure}", ErrorCode::kUnavailable},
      {"no_healthy_upstream", ErrorCode::kUnavailable},
      {"response_timeout", ErrorCode::kDeadlineExceeded},
      {"upstream_response_timeout", ErrorCode::kDeadlineExceeded},
      {"request_rate_limited", std::nullopt},
  };
  for (const auto& each : cases) {
    ProcessingExchange exchange = served(BodyMode::kStreamed);
    const auto actions = exchange.on_message(answer_headers("503", true, each.details));
    ASSERT_TRUE(actions.answer);
    EXPECT_FALSE(actions.answer->head);
    EXPECT_EQ(actions.answer->withheld, !each.lost) << each.details;
    ASSERT_EQ(actions.answer->lost.has_value(), each.lost.has_value()) << each.details;
    if (!each.lost) continue;
    EXPECT_EQ(actions.answer->lost->code, *each.lost);
    EXPECT_TRUE(actions.replies.empty()) << "what replaces it is the answer to this message";
    EXPECT_EQ(exchange.on_refused({.status = 503}).replies.size(), 1U);
  }
  ProcessingExchange exchange = served(BodyMode::kStreamed);
  EXPECT_TRUE(exchange.on_message(answer_headers("503", true, "via_upstream")).answer->head);
}

TEST(ProcessingExchange, ModesInWhichNothingCouldBePickedOrLearnedEndTheStream) {
  const std::pair<BodyMode, BodyMode> wrong[] = {{BodyMode::kStreamed, BodyMode::kStreamed},
                                                 {BodyMode::kNone, BodyMode::kStreamed},
                                                 {BodyMode::kBufferedPartial, BodyMode::kStreamed},
                                                 {BodyMode::kBuffered, BodyMode::kNone},
                                                 {BodyMode::kFullDuplexStreamed, BodyMode::kBuffered}};
  for (const auto& [request_mode, response_mode] : wrong) {
    ProcessingExchange exchange(kMostBytes);
    const auto actions = exchange.on_message(request_headers(request_mode, response_mode));
    ASSERT_TRUE(actions.end);
    EXPECT_EQ(actions.end->code, StreamEnd::Code::kFailedPrecondition);
    EXPECT_NE(actions.end->message.find("has to be"), std::string::npos);
  }
}

TEST(ProcessingExchange, ABodyBeyondTheBoundIsRefused) {
  ProcessingExchange exchange(10);
  (void)exchange.on_message(request_headers());
  EXPECT_FALSE(exchange.on_message(body(Part::kRequestBody, "0123456789", false)).refused);
  const auto actions = exchange.on_message(body(Part::kRequestBody, "x", true));
  ASSERT_TRUE(actions.refused);
  EXPECT_EQ(actions.refused->code, ErrorCode::kTooLarge);
  const auto refused = exchange.on_refused({.status = 413});
  EXPECT_EQ(refused.replies, std::vector{write_immediate({.status = 413})});
  EXPECT_EQ(refused.end->code, StreamEnd::Code::kOk);
}

TEST(ProcessingExchange, MessagesOutOfTurnEndTheStream) {
  ProcessingExchange first(kMostBytes);
  EXPECT_EQ(first.on_message(body(Part::kRequestBody, "{}", true)).end->code, StreamEnd::Code::kInvalidArgument);
  ProcessingExchange second(kMostBytes);
  EXPECT_EQ(second.on_message(answer_headers("200")).end->code, StreamEnd::Code::kInvalidArgument);
  ProcessingExchange third = served(BodyMode::kStreamed);
  EXPECT_EQ(third.on_message(body(Part::kResponseBody, "x", false)).end->code, StreamEnd::Code::kInvalidArgument);
}

// Whatever comes, in whatever order: what was sent of a body comes back whole and once, each message of an answer has
// exactly one reply, and nothing follows the end.
TEST(ProcessingExchange, AnyOrderOfMessagesKeepsTheRules) {
  const std::uint64_t seed = 20261126;
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  RandomStream random(seed);
  int wholes = 0;
  for (int round = 0; round < 5'000; ++round) {
    ProcessingExchange exchange(64);
    bool over = false;
    bool given = false;
    for (int step = 0; step < 12; ++step) {
      ProcessingRequest message = step == 0 && below(random, 8) != 0 ? request_headers() : ProcessingRequest();
      if (step > 0) message.part = static_cast<Part>(below(random, 6));
      message.end_of_stream = below(random, 3) == 0;
      message.body = std::string(below(random, 30), 'b');
      if (message.part == Part::kResponseHeaders) message.headers.add(":status", "200");
      const Part part = message.part;
      ExchangeActions actions = exchange.on_message(std::move(message));
      if (over) {
        EXPECT_TRUE(actions.replies.empty() && !actions.request && !actions.answer && !actions.end);
      }
      if (actions.answer && !actions.end) {
        EXPECT_EQ(actions.replies.size(), 1U) << to_string(part);
      }
      if (actions.request) {
        EXPECT_FALSE(given) << "a request is given out once";
        given = true;
        EXPECT_LE(actions.request->body.size(), 64U);
        if (below(random, 4) != 0) {
          ++wholes;
          EXPECT_FALSE(exchange.on_picked({"1.1.1.1:1"}, actions.request->body).replies.empty());
        }
      }
      if (actions.refused) (void)exchange.on_refused({.status = 413});
      over = over || actions.end || exchange.is_over();
      EXPECT_EQ(over, exchange.is_over());
    }
  }
  EXPECT_GT(wholes, 500);
}

}  // namespace
}  // namespace kvist::epp::processing_exchange_test

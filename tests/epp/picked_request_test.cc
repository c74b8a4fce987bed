// A stream connected to a gateway's stand-in: what the gateway answers and is told, without gRPC.
#include "kvist/epp/picked_request.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kvist/epp/ext_proc_codec.h"
#include "kvist/net/event_loop.h"

namespace kvist::epp::picked_request_test {
namespace {

struct Sink final : MessageSink {
  void send(std::string message) override { sent.push_back(std::move(message)); }
  void end(StreamEnd how) override { ends.push_back(how.code); }
  std::vector<std::string> sent;
  std::vector<StreamEnd::Code> ends;
};

/// What the gateway is told of an answer.
struct Told {
  std::vector<int> heads;
  std::string body;
  int ends = 0;
  std::vector<ErrorCode> errors;
  int gone = 0;
  std::vector<std::string> served;
};

class PickedRequestTest : public ::testing::Test {
 protected:
  PickedRequestTest() {
    shared_.loop = &loop_;
    shared_.max_body_bytes = 100;
    shared_.request_timeout = std::chrono::seconds(60);
    shared_.fallbacks = 2;
    shared_.handle = [this](net::HttpRequest request, const std::shared_ptr<net::HttpExchange>& exchange,
                            const std::shared_ptr<gateway::Carrier>& carrier) {
      request_ = std::make_shared<const net::HttpRequest>(std::move(request));
      exchange_ = exchange;
      carrier_ = carrier;
      exchange->on_client_gone([this] { ++told_.gone; });
      carrier->on_served_by([this](std::string_view endpoint) {
        told_.served.emplace_back(endpoint);
        call_ = carry({std::string(endpoint)});
      });
    };
    stream_ = std::make_shared<PickedRequest>(shared_, sink_);
  }

  std::unique_ptr<net::HttpCall> carry(const std::vector<std::string>& endpoints) {
    return carrier_->carry(endpoints, request_, std::chrono::seconds(60),
                           {.on_sent = {},
                            .on_head = [this](int status, const net::Headers&) { told_.heads.push_back(status); },
                            .on_body = [this](std::string_view data, TimePoint) { told_.body += data; },
                            .on_end = [this](const net::CallTimes&) { ++told_.ends; },
                            .on_error = [this](const Error& error, bool) { told_.errors.push_back(error.code); }});
  }
  /// A request of which worker 1.1.1.1:1 was told to be the one.
  void serve() {
    send({.part = Part::kRequestHeaders}, true);
    send({.part = Part::kRequestBody, .body = "{}", .end_of_stream = true});
    ASSERT_TRUE(carrier_);
    call_ = carry({"1.1.1.1:1", "2.2.2.2:2"});
    sink_->sent.clear();
  }
  void send(ProcessingRequest message, bool first = false) {
    if (first) message.protocol = Protocol{};
    stream_->on_message(std::move(message));
  }
  void answer_head(std::string served = {}, std::string details = {}) {
    ProcessingRequest head{
        .part = Part::kResponseHeaders, .served = std::move(served), .code_details = std::move(details)};
    head.headers.add(":status", "200");
    send(std::move(head));
  }

  net::EventLoop loop_;
  PickedRequest::Shared shared_;
  std::shared_ptr<Sink> sink_ = std::make_shared<Sink>();
  std::shared_ptr<const net::HttpRequest> request_;
  std::shared_ptr<net::HttpExchange> exchange_;
  std::shared_ptr<gateway::Carrier> carrier_;
  std::unique_ptr<net::HttpCall> call_;
  Told told_;
  std::shared_ptr<PickedRequest> stream_;
};

TEST_F(PickedRequestTest, TheAnswerReachesTheGatewayAndNothingOfItGoesBackTwice) {
  serve();
  answer_head();
  exchange_->begin_stream(200, {});
  exchange_->write("data: 1\n\n");
  send({.part = Part::kResponseBody, .body = "data: 1\n\n"});
  send({.part = Part::kResponseBody, .end_of_stream = true});
  exchange_->end_stream();
  EXPECT_EQ(told_.heads, std::vector{200});
  EXPECT_EQ(told_.body, "data: 1\n\n");
  EXPECT_EQ(told_.ends, 1);
  EXPECT_EQ(sink_->sent.size(), 3U) << "one reply to each message";
  EXPECT_EQ(sink_->ends, std::vector{StreamEnd::Code::kOk});
  stream_->on_closed();
  EXPECT_EQ(told_.gone, 0) << "nobody leaves behind the end of an answer";
  EXPECT_EQ(shared_.counters.unended, 0U);
  EXPECT_EQ(shared_.counters.picked, 1U);
}

TEST_F(PickedRequestTest, AnAnswerInOnePieceIsNotAnsweredAgain) {
  serve();
  answer_head();
  send({.part = Part::kResponseBody, .body = "{}", .end_of_stream = true});
  exchange_->respond({.status = 200, .headers = {}, .body = "{}"});
  EXPECT_EQ(sink_->sent.size(), 2U);
  EXPECT_EQ(shared_.counters.refused + shared_.counters.broken_off, 0U);
}

TEST_F(PickedRequestTest, ARefusalIsAnImmediateResponse) {
  send({.part = Part::kRequestHeaders}, true);
  send({.part = Part::kRequestBody, .body = "{}", .end_of_stream = true});
  net::HttpResponse refusal{.status = 429, .headers = {}, .body = "{\"error\":{}}"};
  refusal.headers.add("Retry-After", "2");
  exchange_->respond(refusal);
  EXPECT_EQ(sink_->sent,
            std::vector{write_immediate({.status = 429, .headers = {{"Retry-After", "2"}}, .body = "{\"error\":{}}"})});
  EXPECT_EQ(sink_->ends, std::vector{StreamEnd::Code::kOk});
  EXPECT_EQ(shared_.counters.refused, 1U);
  exchange_->respond(refusal);
  EXPECT_EQ(sink_->sent.size(), 1U) << "once";
}

TEST_F(PickedRequestTest, AnErrorBehindTheBeginningBreaksTheStreamOff) {
  serve();
  answer_head();
  exchange_->abort();
  EXPECT_EQ(sink_->ends, std::vector{StreamEnd::Code::kAborted});
  EXPECT_EQ(shared_.counters.broken_off, 1U);
}

TEST_F(PickedRequestTest, AnswersOfAFallBackEndpointAreToldToTheCallForIt) {
  serve();
  answer_head("2.2.2.2:2");
  EXPECT_EQ(told_.served, std::vector<std::string>{"2.2.2.2:2"});
  EXPECT_EQ(told_.heads, std::vector{200}) << "by the second call, once";
  EXPECT_EQ(shared_.counters.moved, 1U);
  EXPECT_EQ(sink_->sent.size(), 1U);
  answer_head();
  EXPECT_EQ(sink_->ends, std::vector{StreamEnd::Code::kInvalidArgument}) << "a second head is out of turn";
}

TEST_F(PickedRequestTest, ALostAnswerIsAnErrorAndGetsOne) {
  serve();
  answer_head({}, "upstream_reset_before_response_started{connection_failure}");
  EXPECT_EQ(told_.errors, std::vector{ErrorCode::kUnavailable});
  ASSERT_EQ(sink_->sent.size(), 1U);
  EXPECT_EQ(static_cast<unsigned char>(sink_->sent[0][0]), 0x3A) << "an immediate response";
}

TEST_F(PickedRequestTest, AProxyThatLeavesIsAClientThatLeaves) {
  serve();
  answer_head();
  stream_->on_closed();
  EXPECT_EQ(told_.gone, 1);
  EXPECT_TRUE(exchange_->client_gone());
  EXPECT_EQ(shared_.counters.unended, 1U);
}

TEST_F(PickedRequestTest, ACallThatTheGatewayGaveUpIsToldNothing) {
  serve();
  call_.reset();
  answer_head();
  EXPECT_TRUE(told_.heads.empty());
  EXPECT_EQ(sink_->sent.size(), 1U) << "the answer goes on all the same";
}

TEST_F(PickedRequestTest, OnlyTheSubsetMayBeUsed) {
  ProcessingRequest head{.part = Part::kRequestHeaders};
  head.subset = {"1.1.1.1:1"};
  send(std::move(head), true);
  send({.part = Part::kRequestBody, .body = "{}", .end_of_stream = true});
  EXPECT_TRUE(carrier_->may_use("1.1.1.1:1"));
  EXPECT_FALSE(carrier_->may_use("1.1.1.1:2"));
}

TEST_F(PickedRequestTest, WhatIsNoMessageEndsTheStream) {
  serve();
  stream_->on_message(fail(ErrorCode::kCorrupt, "no message"));
  EXPECT_EQ(sink_->ends, std::vector{StreamEnd::Code::kInvalidArgument});
  EXPECT_EQ(told_.gone, 1);
  EXPECT_EQ(shared_.counters.malformed, 1U);
}

TEST_F(PickedRequestTest, ARequestThatDoesNotComeToItsEndIsRefused) {
  shared_.request_timeout = std::chrono::milliseconds(1);
  send({.part = Part::kRequestHeaders}, true);
  net::Timer stop(loop_);
  std::function<void()> look = [&] {
    if (!sink_->ends.empty()) return loop_.stop();
    stop.arm(net::now() + std::chrono::milliseconds(1), look);
  };
  look();
  loop_.run();
  ASSERT_EQ(sink_->sent.size(), 1U);
  EXPECT_EQ(shared_.counters.refused, 1U);
}

}  // namespace
}  // namespace kvist::epp::picked_request_test

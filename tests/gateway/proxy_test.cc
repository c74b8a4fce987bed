// The proxy over real sockets, with scripted workers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kvist/openai/codec.h"
#include "running_gateway.h"
#include "streaming_client.h"

namespace kvist::gateway::proxy_test {
namespace {

using ::testing::HasSubstr;

const std::string kPath = "/v1/chat/completions";

std::string joined(std::initializer_list<std::string_view> pieces) {
  std::string all;
  for (const std::string_view piece : pieces) all += piece;
  return all;
}

TEST(ProxyStream, PassesEveryByteAndNamesTheWorker) {
  const std::string odd = "data:{\"choices\":[{\"delta\":{\"content\":\"x\"}}],  \"extra\" : 1.50}\r\n\r\n";
  FakeWorker worker("w0", FakeWorker::stream_of({kRoleEvent.substr(0, 20), kRoleEvent.substr(20), ": ping\n\n", odd,
                                                 text_event("hi"), kUsageEvent, kDoneEvent}));
  spec::GatewaySpec spec = gateway_spec({&worker});
  spec.pass_client_keys = true;
  RunningGateway gateway(spec);
  net::Headers headers;
  headers.add("X-Request-Id", "my-id");
  headers.add("Authorization", "Bearer key");
  headers.add("Connection", "X-Hop");
  headers.add("X-Hop", "1");
  const std::string body = chat_body("Hello", R"("stream":true,"stream_options":{"include_usage":true})");
  const auto response = gateway.chat(body, headers);
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.body, joined({kRoleEvent, ": ping\n\n", odd, text_event("hi"), kUsageEvent, kDoneEvent}));
  EXPECT_EQ(response.headers.find("Content-Type"), "text/event-stream; charset=utf-8");
  EXPECT_EQ(response.headers.find("x-kvist-worker"), "w0");
  EXPECT_EQ(response.headers.find("x-kvist-predicted-cached-tokens"), "0");
  EXPECT_EQ(response.headers.find("X-Request-Id"), "my-id");
  const auto posts = worker.posts();
  ASSERT_EQ(posts.size(), 1U);
  EXPECT_EQ(posts[0].body, body);
  EXPECT_EQ(posts[0].target, kPath);
  EXPECT_EQ(posts[0].headers.find("Authorization"), "Bearer key");
  EXPECT_EQ(posts[0].headers.find("X-Request-Id"), "my-id");
  EXPECT_FALSE(posts[0].headers.find("X-Hop"));
}

TEST(ProxyStream, AsksForUsageItselfAndKeepsItFromAClientThatDidNot) {
  FakeWorker worker("w0");
  RunningGateway gateway(gateway_spec({&worker}));
  const std::string body = chat_body("Hello");
  const auto response = gateway.chat(body);
  EXPECT_EQ(response.body, joined({kRoleEvent, text_event("hi"), kDoneEvent}));
  ASSERT_EQ(worker.posts().size(), 1U);
  EXPECT_EQ(worker.posts()[0].body, openai::with_usage_requested(body).value());
  EXPECT_NE(worker.posts()[0].body, body);
  ASSERT_TRUE(gateway.await_idle());
  EXPECT_EQ(gateway.metric("kvist_gateway_usage_reports_total"), 1);
  EXPECT_EQ(gateway.metric("kvist_gateway_cached_tokens_total"), 32);
  EXPECT_EQ(gateway.metric("kvist_gateway_cached_tokens_error_total"), 32);
  EXPECT_EQ(gateway.metric("kvist_gateway_prompt_tokens_total"), 50);
  EXPECT_EQ(gateway.metric("kvist_gateway_time_to_first_token_seconds_count"), 1);
  EXPECT_EQ(gateway.outcomes("completed"), 1);
}

TEST(ProxyStream, GeneratesDifferentRequestIds) {
  FakeWorker worker("w0");
  RunningGateway gateway(gateway_spec({&worker}));
  const auto first = gateway.chat(chat_body("a"));
  const auto second = gateway.chat(chat_body("a"));
  ASSERT_TRUE(first.headers.find("X-Request-Id"));
  EXPECT_FALSE(first.headers.find("X-Request-Id")->empty());
  EXPECT_NE(first.headers.find("X-Request-Id"), second.headers.find("X-Request-Id"));
}

TEST(ProxyWhole, PassesAPlainAnswerAsItIs) {
  const std::string answer =
      R"({"id":"x", "choices":[{"message":{"content":"hi"}}],"usage":{"prompt_tokens":9,"completion_tokens":1,)"
      R"("prompt_tokens_details":{"cached_tokens":4}}})";
  FakeWorker worker("w0", FakeWorker::answer_of(200, answer));
  RunningGateway gateway(gateway_spec({&worker}));
  const std::string body = R"({"model":"m","prompt":"abc"})";
  const auto response = gateway.call("POST", "/v1/completions", body);
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.body, answer);
  EXPECT_EQ(response.headers.find("x-kvist-worker"), "w0");
  EXPECT_EQ(response.headers.find("Content-Type"), "application/json");
  EXPECT_EQ(worker.posts().at(0).body, body);
  EXPECT_EQ(worker.posts().at(0).target, "/v1/completions");
  EXPECT_EQ(gateway.metric("kvist_gateway_prompt_tokens_total"), 9);
  EXPECT_EQ(gateway.metric("kvist_gateway_cached_tokens_total"), 4);
}

TEST(ProxyWhole, UsageWithoutCachedTokensChangesNothing) {
  FakeWorker worker("w0", FakeWorker::answer_of(200, R"({"id":"x","choices":[{"message":{"content":"hi"}}],)"
                                                     R"("usage":{"prompt_tokens":9,"completion_tokens":1}})"));
  RunningGateway gateway(gateway_spec({&worker}));
  EXPECT_EQ(gateway.call("POST", "/v1/completions", R"({"model":"m","prompt":"abc"})").status, 200);
  EXPECT_EQ(gateway.metric("kvist_gateway_usage_reports_total"), 0);
}

TEST(ProxyRetry, ARefusedConnectionMovesTheRequestToAnotherWorker) {
  FakeWorker dead("dead");
  FakeWorker alive("alive");
  RunningGateway gateway(gateway_spec({&dead, &alive}));
  dead.stop();
  const auto response = gateway.chat(chat_body("Hello"));
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.headers.find("x-kvist-worker"), "alive");
  EXPECT_EQ(alive.posts().size(), 1U);
  EXPECT_LE(gateway.metric("kvist_gateway_retries_total"), 1) << "none if a look at its health came first";
  EXPECT_EQ(gateway.metric("kvist_gateway_worker_healthy", "worker", "dead"), 0);
}

TEST(ProxyRetry, AnAnswerThatBreaksBeforeItsFirstEventIsTriedElsewhere) {
  FakeWorker broken("broken", [](const net::HttpRequest&, const FakeWorker::Exchange& exchange) {
    exchange->begin_stream(200, stream_headers());
    exchange->write("data: {\"half");
    exchange->abort();
  });
  FakeWorker good("good");
  RunningGateway gateway(gateway_spec({&broken, &good}));
  const auto response = gateway.chat(chat_body("Hello"));
  EXPECT_EQ(response.body, joined({kRoleEvent, text_event("hi"), kDoneEvent}));
  EXPECT_EQ(response.headers.find("x-kvist-worker"), "good");
}

TEST(ProxyRetry, WhatMayHaveEffectsIsSentToOneWorkerOnly) {
  const auto broken = [](const net::HttpRequest&, const FakeWorker::Exchange& exchange) { exchange->abort(); };
  FakeWorker a("a", broken);
  FakeWorker b("b", broken);
  RunningGateway gateway(gateway_spec({&a, &b}));
  const auto sent = [&] { return a.posts().size() + b.posts().size(); };
  EXPECT_GE(gateway.call("POST", "/v1/batches", R"({"input":"a"})").status, 500);
  EXPECT_EQ(sent(), 1U);
}

TEST(ProxyRetry, WhatOnlyComputesIsTriedElsewhere) {
  FakeWorker broken("broken", [](const net::HttpRequest&, const FakeWorker::Exchange& exchange) { exchange->abort(); });
  FakeWorker good("good", FakeWorker::answer_of(200, R"({"data":[]})"));
  RunningGateway gateway(gateway_spec({&broken, &good}));
  for (int i = 0; i < 2; ++i) EXPECT_EQ(gateway.call("POST", "/v1/embeddings", R"({"input":"a"})").status, 200);
  EXPECT_EQ(good.posts().size(), 2U);
  EXPECT_GE(broken.posts().size(), 1U) << "one of the two goes there first";
}

TEST(ProxyRetry, AfterTheFirstEventAFailureIsAnErrorFrameAndABrokenEnd) {
  FakeWorker broken("broken", [](const net::HttpRequest&, const FakeWorker::Exchange& exchange) {
    exchange->begin_stream(200, stream_headers());
    exchange->write(joined({kRoleEvent, text_event("one"), "data: {\"half"}));
    exchange->abort();
  });
  FakeWorker other("other");
  RunningGateway gateway(gateway_spec({&broken, &other}));
  StreamingClient client(gateway.url(), kPath, chat_body("Hello"));
  ASSERT_TRUE(client.await_over());
  EXPECT_EQ(client.status(), 200);
  EXPECT_FALSE(client.ended()) << "a broken answer must not look whole";
  const std::string expected = joined({kRoleEvent, text_event("one")});
  ASSERT_TRUE(client.body().starts_with(expected)) << client.body();
  const std::string tail = client.body().substr(expected.size());
  EXPECT_THAT(tail, ::testing::StartsWith("data: {\"error\":{"));
  EXPECT_TRUE(tail.ends_with("\n\n"));
  EXPECT_TRUE(other.posts().empty());
  ASSERT_TRUE(gateway.await_idle());
  EXPECT_EQ(gateway.outcomes("broken_stream"), 1);
}

TEST(ProxyStream, OneThatIsPassedOnBreaksOffWithAnErrorInAnEventOfItsOwn) {
  FakeWorker worker("w0");
  const std::string whole = "event: a\ndata: {}\n\n";
  const std::string error = "data: {\"error\":{";
  for (const std::string rest : {"", "event: b\ndata: {\"ha", "data: {}\n", "data: {}\r\n\r", "data: {}\r\n\r\n"}) {
    for (const bool in_one : {true, false}) {
      worker.set_script([&](const net::HttpRequest&, const FakeWorker::Exchange& exchange) {
        exchange->begin_stream(200, stream_headers());
        if (in_one) exchange->write(whole + rest);
        for (std::size_t i = 0; !in_one && i < whole.size(); ++i) exchange->write(whole.substr(i, 1));
        if (!in_one) exchange->write(rest);
        exchange->abort();
      });
      const RunningGateway gateway(gateway_spec({&worker}));
      StreamingClient client(gateway.url(), "/v1/audio/speech", R"({"input":"a","stream":true})");
      ASSERT_TRUE(client.await_over());
      EXPECT_FALSE(client.ended());
      const bool ended = rest.empty() || rest.ends_with("\r\n\r\n");
      EXPECT_THAT(client.body(), ::testing::StartsWith(whole + rest + (ended ? "" : "\n\n") + error));
      ASSERT_TRUE(gateway.await_idle());
    }
  }
}

TEST(ProxyRetry, AServerErrorBeforeTheFirstByteIsTriedElsewhere) {
  for (const int status : {500, 502, 504}) {
    FakeWorker failing("failing", FakeWorker::answer_of(status, R"({"error":{"message":"EngineCore"}})"));
    FakeWorker good("good");
    RunningGateway gateway(gateway_spec({&failing, &good}));
    EXPECT_EQ(gateway.chat(chat_body("Hello")).status, 200) << status;
    EXPECT_EQ(gateway.chat(chat_body("Hello", R"("n":1)")).status, 200) << status;
    EXPECT_GE(failing.posts().size(), 1U);
    EXPECT_GE(gateway.metric("kvist_gateway_retries_total"), 1);
    EXPECT_GE(gateway.metric("kvist_gateway_worker_failures_total", "worker", "failing"), 1);
    EXPECT_TRUE(await([&] { return gateway.metric("kvist_gateway_worker_healthy") == 2; }))
        << "its health check speaks for it";
  }
}

TEST(ProxyRetry, TheLastWorkersErrorReachesTheClient) {
  FakeWorker a("a", FakeWorker::answer_of(500, R"({"error":{"message":"EngineCore","code":500}})"));
  FakeWorker b("b", FakeWorker::answer_of(500, R"({"error":{"message":"EngineCore","code":500}})"));
  RunningGateway gateway(gateway_spec({&a, &b}));
  const auto response = gateway.chat(chat_body("Hello"));
  EXPECT_EQ(response.status, 500);
  EXPECT_EQ(response.body, R"({"error":{"message":"EngineCore","code":500}})");
  EXPECT_EQ(a.posts().size() + b.posts().size(), 2U);
  EXPECT_EQ(gateway.outcomes("worker_error"), 1);
  EXPECT_EQ(gateway.metric("kvist_gateway_in_flight"), 0);
}

const std::string kEngineDead =
    "data: {\"error\":{\"message\":\"EngineCore encountered an issue.\",\"type\":\"InternalServerError\","
    "\"param\":null,\"code\":500}}\n\n";

TEST(ProxyRetry, AStreamThatBeginsWithAServerErrorIsTriedElsewhere) {
  FakeWorker dead("dead", FakeWorker::stream_of({kEngineDead, kDoneEvent}));
  FakeWorker good("good");
  RunningGateway gateway(gateway_spec({&dead, &good}));
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(gateway.chat(chat_body("Hello")).body, joined({kRoleEvent, text_event("hi"), kDoneEvent}));
  EXPECT_GE(dead.posts().size(), 1U);
  EXPECT_GE(gateway.metric("kvist_gateway_error_frames_total"), 1);
}

TEST(ProxyRetry, AnAnswerThatIsNoneOfThisApiIsTriedElsewhere) {
  const std::string page = "data: <html>welcome</html>\n\n";
  for (const FakeWorker::Script& garbage :
       {FakeWorker::stream_of({page, kDoneEvent}), FakeWorker::answer_of(200, "<html>welcome</html>"),
        FakeWorker::answer_of(200, R"({"error":{"message":"EngineCore"}})"), FakeWorker::answer_of(302, "")}) {
    FakeWorker bad("bad", garbage);
    FakeWorker good("good");
    RunningGateway gateway(gateway_spec({&bad, &good}));
    for (int i = 0; i < 2; ++i)
      EXPECT_EQ(gateway.chat(chat_body("Hello")).body, joined({kRoleEvent, text_event("hi"), kDoneEvent}));
    // Whether the second request comes to it too depends on when its health was confirmed after the first.
    EXPECT_GE(bad.posts().size(), 1U);
    EXPECT_EQ(gateway.metric("kvist_gateway_attempt_failures_total", "reason", "garbage"),
              static_cast<double>(bad.posts().size()));
    EXPECT_TRUE(gateway.get("/admin/decisions").body.contains(R"("failure":"garbage: )"));
  }
}

TEST(ProxyRetry, GarbageOfTheLastWorkerReachesTheClientUnchanged) {
  const std::string page = "data: <html>welcome</html>\n\n";
  FakeWorker only("only", FakeWorker::stream_of({page, kDoneEvent}));
  RunningGateway gateway(gateway_spec({&only}));
  EXPECT_EQ(gateway.chat(chat_body("Hello")).body, joined({page, kDoneEvent}));
  only.set_script(FakeWorker::answer_of(200, "<html>welcome</html>"));
  EXPECT_EQ(gateway.chat(chat_body("Hello")).body, "<html>welcome</html>");
  EXPECT_TRUE(gateway.await_idle());
  EXPECT_EQ(gateway.outcomes("completed"), 0);
  EXPECT_EQ(gateway.outcomes("worker_error") + gateway.outcomes("broken_stream"), 2);
}

TEST(ProxyRetry, AStreamThatBeginsWithTheRequestsErrorIsNot) {
  const std::string refusal = "data: {\"error\":{\"message\":\"too long\",\"code\":400}}\n\n";
  FakeWorker a("a", FakeWorker::stream_of({refusal, kDoneEvent}));
  FakeWorker b("b", FakeWorker::stream_of({refusal, kDoneEvent}));
  RunningGateway gateway(gateway_spec({&a, &b}));
  EXPECT_EQ(gateway.chat(chat_body("Hello")).body, joined({refusal, kDoneEvent}));
  EXPECT_EQ(a.posts().size() + b.posts().size(), 1U);
  EXPECT_EQ(gateway.metric("kvist_gateway_worker_failures_total"), 0);
}

TEST(ProxyRetry, AServerErrorInABegunStreamReachesTheClientAndPutsTheWorkerInDoubt) {
  const std::string stream = joined({kRoleEvent, text_event("one"), kEngineDead, kDoneEvent});
  FakeWorker worker("w0", FakeWorker::stream_of({kRoleEvent, text_event("one"), kEngineDead, kDoneEvent}));
  worker.set_script([&](const net::HttpRequest&, const FakeWorker::Exchange& exchange) {
    worker.set_health(503);
    exchange->begin_stream(200, stream_headers());
    exchange->write(joined({kRoleEvent, text_event("one")}));
    exchange->write(joined({kEngineDead, kDoneEvent}));
    exchange->end_stream();
  });
  RunningGateway gateway(gateway_spec({&worker}));
  StreamingClient client(gateway.url(), kPath, chat_body("Hello"));
  ASSERT_TRUE(client.await_over());
  EXPECT_EQ(client.body(), stream);
  EXPECT_TRUE(await([&] { return gateway.metric("kvist_gateway_worker_healthy") == 0; }));
  EXPECT_EQ(gateway.outcomes("worker_error"), 1);
  EXPECT_EQ(gateway.outcomes("completed"), 0);
}

TEST(ProxyRetry, AnEventThatIsTooLargeIsNoWorkersFailure) {
  const std::string large = text_event(std::string((1U << 20) + 1, 'x'));
  FakeWorker a("a", FakeWorker::stream_of({large, kDoneEvent}));
  FakeWorker b("b", FakeWorker::stream_of({large, kDoneEvent}));
  RunningGateway gateway(gateway_spec({&a, &b}));
  const auto first = gateway.chat(chat_body("Hello"));
  EXPECT_EQ(first.status, 502);
  EXPECT_THAT(first.body, ::testing::HasSubstr("a server-sent event larger than 1048576 bytes"));
  EXPECT_EQ(a.posts().size() + b.posts().size(), 2U) << "the next worker answers the same";
  for (FakeWorker* worker : {&a, &b}) worker->set_script(FakeWorker::stream_of({kRoleEvent, large, kDoneEvent}));
  StreamingClient later(gateway.url(), kPath, chat_body("Hello"));
  ASSERT_TRUE(later.await_over());
  EXPECT_FALSE(later.ended());
  EXPECT_THAT(later.body(),
              ::testing::HasSubstr("data: {\"error\":{\"message\":\"the worker's answer has a server-sent"));
  ASSERT_TRUE(gateway.await_idle());
  EXPECT_EQ(gateway.outcomes("worker_error"), 2);
  EXPECT_EQ(gateway.metric("kvist_gateway_worker_failures_total"), 0);
}

TEST(ProxyRetry, AnEventWithoutAnEndIsItsWorkersFailureIfAnotherAnswersWell) {
  FakeWorker bad("bad", FakeWorker::stream_of({"data: " + std::string((1U << 20) + 1, 'x')}));
  FakeWorker good("good");
  RunningGateway gateway(gateway_spec({&bad, &good}));
  for (int i = 0; i < 20; ++i) EXPECT_EQ(gateway.chat(chat_body("Hello " + std::to_string(i))).status, 200) << i;
  ASSERT_TRUE(gateway.await_idle());
  EXPECT_EQ(gateway.outcomes("completed"), 20);
  EXPECT_GE(bad.posts().size(), 1U);
  EXPECT_LE(bad.posts().size(), 10U) << "then it is ejected";
  EXPECT_GE(gateway.metric("kvist_gateway_attempt_failures_total", "reason", "too_large"), 1);
  EXPECT_EQ(gateway.metric("kvist_gateway_attempt_failures_total", "worker", "good"), 0);
}

TEST(ProxyRetry, AStreamThatEndsWithoutSayingHowIsABrokenOne) {
  FakeWorker broken("broken", FakeWorker::stream_of({kRoleEvent, text_event("one")}));
  RunningGateway gateway(gateway_spec({&broken}));
  StreamingClient client(gateway.url(), kPath, chat_body("Hello"));
  ASSERT_TRUE(client.await_over());
  EXPECT_FALSE(client.ended()) << "a broken answer must not look whole";
  EXPECT_THAT(client.body(), ::testing::StartsWith(joined({kRoleEvent, text_event("one"), "data: {\"error\":{"})));
  ASSERT_TRUE(gateway.await_idle());
  EXPECT_EQ(gateway.outcomes("broken_stream"), 1);
  EXPECT_EQ(gateway.metric("kvist_gateway_unended_streams_total"), 1);
}

TEST(ProxyStream, KeepsTheFingerprintOfTheChunkItLeavesOut) {
  const std::string end = R"(data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]})"
                          "\n\n";
  const std::string usage = R"(data: {"choices":[],"usage":{"prompt_tokens":5},"system_fingerprint":"f-1"})"
                            "\n\n";
  FakeWorker worker("w0", FakeWorker::stream_of({kRoleEvent, text_event("hi"), end, usage, kDoneEvent}));
  RunningGateway gateway(gateway_spec({&worker}));
  const std::string stamped =
      R"(data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"system_fingerprint":"f-1"})"
      "\n\n";
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(gateway.chat(chat_body("Hello")).body, joined({kRoleEvent, text_event("hi"), stamped, kDoneEvent}));
  EXPECT_EQ(gateway.chat(chat_body("Hello", R"("stream":true,"stream_options":{"include_usage":true})")).body,
            joined({kRoleEvent, text_event("hi"), end, usage, kDoneEvent}));
}

TEST(ProxyStream, UsageInEveryChunkAloneIsLeftToTheWorker) {
  FakeWorker worker("w0");
  RunningGateway gateway(gateway_spec({&worker}));
  const std::string body = chat_body("Hello", R"("stream":true,"stream_options":{"continuous_usage_stats":true})");
  EXPECT_EQ(gateway.chat(body).body, joined({kRoleEvent, text_event("hi"), kUsageEvent, kDoneEvent}));
  EXPECT_EQ(worker.posts().at(0).body, body);
}

TEST(ProxyRetry, BackPressureTriesAnotherWorkerAndLeavesTheFirstHealthy) {
  FakeWorker full("full", FakeWorker::answer_of(503, "{}"));
  FakeWorker free("free");
  RunningGateway gateway(gateway_spec({&full, &free}));
  const auto response = gateway.chat(chat_body("Hello"));
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.headers.find("x-kvist-worker"), "free");
  EXPECT_EQ(full.posts().size(), 1U);
  EXPECT_EQ(gateway.metric("kvist_gateway_worker_healthy"), 2);
}

TEST(ProxyRetry, BackPressureOfAllWorkersReachesTheClient) {
  FakeWorker a("a", FakeWorker::answer_of(503, R"({"error":{"message":"queue full"}})"));
  FakeWorker b("b", FakeWorker::answer_of(503, R"({"error":{"message":"queue full"}})"));
  RunningGateway gateway(gateway_spec({&a, &b}));
  const auto response = gateway.chat(chat_body("Hello"));
  EXPECT_EQ(response.status, 503);
  EXPECT_EQ(response.body, R"({"error":{"message":"queue full"}})");
  EXPECT_EQ(response.headers.find("Retry-After"), "7");
  EXPECT_EQ(a.posts().size() + b.posts().size(), 2U);
  EXPECT_EQ(gateway.outcomes("back_pressure"), 1);
  EXPECT_EQ(gateway.metric("kvist_gateway_in_flight"), 0);
}

TEST(ProxyRetry, AClientsErrorIsPassedOnOnceAndAffectsNoWorker) {
  FakeWorker a("a", FakeWorker::answer_of(400, R"({"error":{"message":"context too long"}})"));
  FakeWorker b("b", FakeWorker::answer_of(400, R"({"error":{"message":"context too long"}})"));
  RunningGateway gateway(gateway_spec({&a, &b}));
  const auto response = gateway.chat(chat_body("Hello"));
  EXPECT_EQ(response.status, 400);
  EXPECT_EQ(response.body, R"({"error":{"message":"context too long"}})");
  EXPECT_EQ(response.headers.find("Content-Type"), "application/json");
  EXPECT_EQ(a.posts().size() + b.posts().size(), 1U);
  EXPECT_EQ(gateway.metric("kvist_gateway_worker_healthy"), 2);
  EXPECT_EQ(gateway.outcomes("refused"), 1);
}

TEST(ProxyRetry, NoWorkerLeftIs503WithRetryAfterAndNoAddress) {
  FakeWorker only("only");
  RunningGateway gateway(gateway_spec({&only}));
  only.stop();
  const auto response = gateway.chat(chat_body("Hello"));
  EXPECT_EQ(response.status, 503);
  EXPECT_EQ(response.headers.find("Retry-After"), "1");
  EXPECT_THAT(response.body, HasSubstr("\"error\""));
  EXPECT_THAT(response.body, ::testing::Not(HasSubstr("127.0.0.1")));
  EXPECT_EQ(gateway.outcomes("upstream_failed"), 1);
}

TEST(ProxyRetry, TheDeadlineIsThatOfTheWholeRequest) {
  FakeWorker silent("silent");
  silent.set_script(silent.silence());
  FakeWorker other("other");
  auto spec = gateway_spec({&silent, &other});
  spec.upstream_timeout = std::chrono::milliseconds(100);
  RunningGateway gateway(std::move(spec));
  const auto response = gateway.chat(chat_body("Hello"));
  EXPECT_EQ(response.status, 504);
  EXPECT_TRUE(other.posts().empty());
  EXPECT_EQ(gateway.outcomes("timed_out"), 1);
}

TEST(ProxyDisconnect, AClientThatLeavesMidStreamAbortsTheWorkersRequest) {
  FakeWorker worker("w0");
  worker.set_script(worker.stream_then_silence({std::string(kRoleEvent), text_event("one")}));
  RunningGateway gateway(gateway_spec({&worker}));
  StreamingClient client(gateway.url(), kPath, chat_body("Hello"));
  ASSERT_TRUE(client.await_text("one"));
  EXPECT_EQ(gateway.metric("kvist_gateway_in_flight"), 1);
  client.leave();
  EXPECT_TRUE(await([&] { return worker.left() == 1; }));
  ASSERT_TRUE(gateway.await_idle());
  EXPECT_EQ(gateway.outcomes("client_gone"), 1);
  EXPECT_EQ(gateway.metric("kvist_gateway_worker_in_flight"), 0);
  EXPECT_EQ(gateway.metric("kvist_gateway_worker_healthy"), 1);
}

TEST(ProxyDisconnect, AClientThatLeavesBeforeTheFirstByteDoesToo) {
  FakeWorker worker("w0");
  worker.set_script(worker.silence());
  RunningGateway gateway(gateway_spec({&worker}));
  StreamingClient client(gateway.url(), kPath, chat_body("Hello"));
  ASSERT_TRUE(await([&] { return worker.posts().size() == 1; }));
  client.leave();
  EXPECT_TRUE(await([&] { return worker.left() == 1; }));
  ASSERT_TRUE(gateway.await_idle());
  EXPECT_EQ(gateway.outcomes("client_gone"), 1);
}

TEST(ProxyBackpressure, ASlowClientSlowsItsWorkerAndLosesNothing) {
  std::string events(kRoleEvent);
  const std::string filler = text_event(std::string(4'000, 'x'));
  while (events.size() < (24U << 20)) events += filler;
  events += kDoneEvent;
  FakeWorker worker("w0", FakeWorker::stream_of({events}));
  RunningGateway gateway(gateway_spec({&worker}));
  StreamingClient client(gateway.url(), kPath, chat_body("Hello"), /*paused=*/true);
  ASSERT_TRUE(await([&] { return gateway.metric("kvist_gateway_slow_client_pauses_total") >= 1; }));
  EXPECT_EQ(gateway.metric("kvist_gateway_in_flight"), 1);
  client.resume();
  ASSERT_TRUE(client.await_over());
  EXPECT_TRUE(client.ended());
  EXPECT_TRUE(client.body() == events) << client.body().size() << " of " << events.size() << " bytes";
}

TEST(ProxyAdmission, BeyondTheBoundTheAnswerIs503WithRetryAfter) {
  FakeWorker worker("w0");
  worker.set_script(worker.silence());
  auto spec = gateway_spec({&worker});
  spec.max_in_flight = 1;
  RunningGateway gateway(std::move(spec));
  StreamingClient first(gateway.url(), kPath, chat_body("Hello"));
  ASSERT_TRUE(await([&] { return worker.posts().size() == 1; }));
  const auto response = gateway.chat(chat_body("Hello"));
  EXPECT_EQ(response.status, 503);
  EXPECT_EQ(response.headers.find("Retry-After"), "1");
  EXPECT_EQ(gateway.outcomes("rejected"), 1);
  EXPECT_EQ(worker.posts().size(), 1U);
}

}  // namespace
}  // namespace kvist::gateway::proxy_test

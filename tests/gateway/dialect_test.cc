// Anthropic's Messages API and OpenAI's Responses API at the gateway, before workers that only know chat completions.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "running_gateway.h"

namespace kvist::gateway::dialect_test {
namespace {

constexpr std::string_view kMessage =
    R"({"model":"m","max_tokens":5,"messages":[{"role":"user","content":"One two three four five"}])";
constexpr std::string_view kInput = R"({"model":"m","input":"One two three four five")";
constexpr std::string_view kWholeAnswer =
    R"({"id":"chatcmpl-7","object":"chat.completion","model":"m","created":5,"choices":[{"index":0,)"
    R"("message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],)"
    R"("usage":{"prompt_tokens":50,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":32}}})";

std::string with(std::string_view body, std::string_view fields) {
  return std::string(body) + std::string(fields) + "}";
}

TEST(Dialects, AMessageIsAChatAtTheWorker) {
  FakeWorker worker("w0", FakeWorker::answer_of(200, std::string(kWholeAnswer)));
  const RunningGateway gateway(gateway_spec({&worker}));
  net::Headers headers;
  headers.add("anthropic-version", "2023-06-01");
  headers.add("x-api-key", "secret");
  headers.add("X-Request-Id", "r1");
  const auto answer = gateway.call("POST", "/v1/messages?beta=true", with(kMessage, ""), headers);
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(
      answer.body,
      R"({"id":"msg_7","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"hi"}],)"
      R"("stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":18,"cache_creation_input_tokens":0,)"
      R"("cache_read_input_tokens":32,"output_tokens":2}})");
  EXPECT_EQ(answer.headers.find("request-id"), "r1");
  EXPECT_EQ(answer.headers.find("x-kvist-worker"), "w0");
  EXPECT_EQ(answer.headers.find("x-kvist-predicted-cached-tokens"), "0") << "its prompt was read";
  const auto posts = worker.posts();
  ASSERT_EQ(posts.size(), 1U);
  EXPECT_EQ(posts[0].target, "/v1/chat/completions");
  EXPECT_EQ(
      posts[0].body,
      R"({"model":"m","messages":[{"role":"user","content":"One two three four five"}],"max_tokens":5,"stream":false})");
  EXPECT_FALSE(posts[0].headers.find("anthropic-version"));
  EXPECT_FALSE(posts[0].headers.find("x-api-key"));
  EXPECT_FALSE(posts[0].headers.find("Authorization"));
}

TEST(Dialects, AKeyIsPassedOnAsWorkersKnowIt) {
  FakeWorker worker("w0", FakeWorker::answer_of(200, std::string(kWholeAnswer)));
  auto spec = gateway_spec({&worker});
  spec.pass_client_keys = true;
  const RunningGateway gateway(std::move(spec));
  net::Headers headers;
  headers.add("x-api-key", "secret");
  EXPECT_EQ(gateway.call("POST", "/v1/messages", with(kMessage, ""), headers).status, 200);
  EXPECT_EQ(worker.posts().at(0).headers.find("Authorization"), "Bearer secret");
}

constexpr std::string_view kEndEvent =
    "data: {\"id\":\"x\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";

FakeWorker::Script whole_stream() {
  return FakeWorker::stream_of({kRoleEvent, text_event("hi"), kEndEvent, kUsageEvent, kDoneEvent});
}

TEST(Dialects, AStreamOfMessages) {
  FakeWorker worker("w0", whole_stream());
  const RunningGateway gateway(gateway_spec({&worker}));
  const auto answer = gateway.call("POST", "/v1/messages", with(kMessage, R"(,"stream":true)"));
  EXPECT_EQ(answer.status, 200);
  EXPECT_TRUE(answer.headers.find("Content-Type")->starts_with("text/event-stream"));
  EXPECT_TRUE(answer.body.starts_with("event: message_start\n")) << answer.body;
  EXPECT_TRUE(answer.body.contains(R"("delta":{"type":"text_delta","text":"hi"})")) << answer.body;
  EXPECT_TRUE(answer.body.contains(R"("cache_read_input_tokens":32,"output_tokens":2})")) << answer.body;
  EXPECT_TRUE(answer.body.ends_with("event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n")) << answer.body;
  EXPECT_TRUE(gateway.await_idle());
  EXPECT_EQ(gateway.outcomes("completed"), 1);
}

TEST(Dialects, AStreamOfAResponse) {
  FakeWorker worker("w0", whole_stream());
  const RunningGateway gateway(gateway_spec({&worker}));
  const auto answer = gateway.call("POST", "/v1/responses", with(kInput, R"(,"stream":true)"));
  EXPECT_EQ(answer.status, 200);
  EXPECT_TRUE(answer.body.starts_with("event: response.created\ndata: {")) << answer.body;
  EXPECT_TRUE(answer.body.contains("event: response.output_text.delta\n")) << answer.body;
  EXPECT_TRUE(answer.body.contains("event: response.completed\n")) << answer.body;
  EXPECT_FALSE(answer.body.contains("[DONE]"));
}

TEST(Dialects, RequestsThatCannotBeTranslatedAreAnsweredHere) {
  FakeWorker worker("w0");
  const RunningGateway gateway(gateway_spec({&worker}));
  const auto message = gateway.call("POST", "/v1/messages", R"({"model":"m"})");
  EXPECT_EQ(message.status, 400);
  EXPECT_TRUE(message.body.starts_with(
      R"({"type":"error","error":{"type":"invalid_request_error","message":"messages: required, but missing"},)"
      R"("request_id":"req-)"))
      << message.body;
  const auto response = gateway.call("POST", "/v1/responses", with(kInput, R"(,"previous_response_id":"resp_1")"));
  EXPECT_EQ(response.status, 422);
  EXPECT_EQ(
      response.body,
      R"({"error":{"message":"previous_response_id: this gateway stores no responses; send the whole conversation )"
      R"(as input","type":"BadRequestError","param":"previous_response_id","code":422}})");
  EXPECT_TRUE(worker.posts().empty());
}

TEST(Dialects, AWorkersErrorIsInTheClientsForm) {
  FakeWorker worker(
      "w0", FakeWorker::answer_of(400, R"({"error":{"message":"too long","type":"t","param":null,"code":400}})"));
  const RunningGateway gateway(gateway_spec({&worker}));
  net::Headers headers;
  headers.add("X-Request-Id", "r1");
  const auto message = gateway.call("POST", "/v1/messages", with(kMessage, R"(,"stream":true)"), headers);
  EXPECT_EQ(message.status, 400);
  EXPECT_EQ(message.body,
            R"({"type":"error","error":{"type":"invalid_request_error","message":"too long"},"request_id":"r1"})");
  const auto response = gateway.call("POST", "/v1/responses", with(kInput, ""));
  EXPECT_EQ(response.status, 400);
  EXPECT_EQ(response.body, R"({"error":{"message":"too long","type":"t","param":null,"code":400}})");
}

TEST(Dialects, ARedirectionIsABadGateway) {
  FakeWorker worker("w0", [](const net::HttpRequest&, const FakeWorker::Exchange& exchange) {
    net::HttpResponse answer{.status = 302, .headers = {}, .body = ""};
    answer.headers.add("Location", "/elsewhere");
    exchange->respond(std::move(answer));
  });
  const RunningGateway gateway(gateway_spec({&worker}));
  const auto message = gateway.call("POST", "/v1/messages", with(kMessage, ""));
  EXPECT_EQ(message.status, 502);
  EXPECT_EQ(message.headers.find("Location"), std::nullopt);
  EXPECT_TRUE(message.body.contains(R"x("type":"api_error","message":"the worker answered with a redirection (302)")x"))
      << message.body;
  const auto response = gateway.call("POST", "/v1/responses", with(kInput, R"(,"stream":true)"));
  EXPECT_EQ(response.status, 502);
  EXPECT_TRUE(response.body.starts_with(R"x({"error":{"message":"the worker answered with a redirection (302)")x"))
      << response.body;
}

TEST(Dialects, OtherMethodsAreRefusedHere) {
  FakeWorker worker("w0");
  const RunningGateway gateway(gateway_spec({&worker}));
  for (const char* path : {"/v1/messages", "/v1/messages/count_tokens", "/v1/responses"}) {
    for (const char* method : {"GET", "PUT"}) {
      const auto answer = gateway.call(method, path);
      EXPECT_EQ(answer.status, 405) << method << ' ' << path;
      EXPECT_EQ(answer.headers.find("Allow"), "POST");
    }
    EXPECT_EQ(worker.gets(path), 0);
  }
  const auto answer = gateway.get("/v1/messages");
  EXPECT_TRUE(answer.body.starts_with(R"({"type":"error","error":{)"));
  const std::string id(answer.headers.find("request-id").value_or("none"));
  EXPECT_TRUE(answer.body.ends_with(R"("request_id":")" + id + R"("})")) << answer.body << ' ' << id;
  EXPECT_TRUE(worker.posts().empty());
}

TEST(Dialects, TheAccessLogHasTheStatusThatTheClientSaw) {
  std::string name = (std::filesystem::temp_directory_path() / "kvist-dialects-XXXXXX").string();
  ::close(::mkstemp(name.data()));
  {
    // A redirection for the first, an answer that is no chat for the second, a chat for the third.
    FakeWorker worker("w0", [](const net::HttpRequest& request, const FakeWorker::Exchange& exchange) {
      if (request.body.contains("first")) return exchange->respond({.status = 302, .headers = {}, .body = ""});
      FakeWorker::answer_of(200, request.body.contains("second") ? "{}" : std::string(kWholeAnswer))(request, exchange);
    });
    spec::GatewaySpec spec = gateway_spec({&worker});
    spec.access_log.file = name;
    const RunningGateway gateway(spec);
    for (const char* which : {"first", "second", "third"})
      (void)gateway.call("POST", "/v1/responses", fmt::format(R"({{"model":"m","input":"{}"}})", which));
  }
  std::ifstream log(name);
  std::vector<std::string> statuses;
  for (std::string line; std::getline(log, line);) {
    const std::size_t at = line.find(" status=");
    statuses.push_back(at == std::string::npos ? line : line.substr(at + 8, 3));
  }
  EXPECT_EQ(statuses, (std::vector<std::string>{"502", "502", "200"}));
  std::filesystem::remove(name);
}

TEST(Dialects, AnAnswerThatIsNoChatIsABadGateway) {
  FakeWorker worker("w0", FakeWorker::answer_of(200, R"({"id":"x","choices":"none"})"));
  const RunningGateway gateway(gateway_spec({&worker}));
  const auto message = gateway.call("POST", "/v1/messages", with(kMessage, ""));
  EXPECT_EQ(message.status, 502);
  EXPECT_TRUE(message.body.starts_with(R"({"type":"error","error":{"type":"api_error","message":")")) << message.body;
}

TEST(Dialects, AStreamThatCannotBeTranslatedEndsWithAnErrorAndLeavesItsWorker) {
  FakeWorker worker("w0");
  worker.set_script(
      worker.stream_then_silence({std::string(kRoleEvent), text_event("hi"),
                                  "data: {\"id\":\"x\",\"choices\":[{\"finish_reason\":\"stop\"}]}\n\n"}));
  const RunningGateway gateway(gateway_spec({&worker}));
  const auto answer = gateway.call("POST", "/v1/messages", with(kMessage, R"(,"stream":true)"));
  EXPECT_EQ(answer.status, 200);
  EXPECT_TRUE(answer.body.contains("event: error\ndata: {\"type\":\"error\"")) << answer.body;
  EXPECT_TRUE(await([&] { return worker.left() == 1; }));
  EXPECT_TRUE(gateway.await_idle());
}

TEST(Dialects, TokensAreCountedByAWorker) {
  FakeWorker worker("w0");
  worker.set_tokenize([](const net::HttpRequest& request, const FakeWorker::Exchange& exchange) {
    const bool ours = request.body.contains("One two three");
    exchange->respond({.status = ours ? 200 : 404,
                       .headers = {},
                       .body = ours ? R"({"count":17,"max_model_len":100,"tokens":[1]})" : "{}"});
  });
  const RunningGateway gateway(gateway_spec({&worker}));
  const auto answer = gateway.call("POST", "/v1/messages/count_tokens",
                                   R"({"model":"m","messages":[{"role":"user","content":"One two three"}]})");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body, R"({"input_tokens":17})");
}

TEST(Dialects, AnAnswerThatBreaksOffBeforeItsClientHasAnythingIsAnError) {
  FakeWorker worker("w0");
  worker.set_tokenize([](const net::HttpRequest&, const FakeWorker::Exchange& exchange) {
    exchange->begin_stream(200, {});
    exchange->write(R"({"count":17,)");
    exchange->abort();
  });
  spec::GatewaySpec spec = gateway_spec({&worker});
  spec.access_log.file = ::testing::TempDir() + "dialect-access-" + std::to_string(::getpid());
  {
    const RunningGateway gateway(spec);
    const auto answer = gateway.call("POST", "/v1/messages/count_tokens",
                                     R"({"model":"m","messages":[{"role":"user","content":"One two three"}]})");
    EXPECT_EQ(answer.status, 503);
    EXPECT_TRUE(answer.body.starts_with(R"({"type":"error","error":{"type":")")) << answer.body;
    EXPECT_TRUE(answer.body.contains("broke off its answer")) << answer.body;
    const auto id = answer.headers.find("X-Request-Id");
    ASSERT_TRUE(id);
    EXPECT_TRUE(answer.body.contains(*id)) << answer.body;
    ASSERT_TRUE(gateway.await_idle());
  }
  std::ifstream log(spec.access_log.file);
  const std::string line((std::istreambuf_iterator<char>(log)), {});
  EXPECT_TRUE(line.contains(" status=503 ")) << line;
  std::remove(spec.access_log.file.c_str());
}

}  // namespace
}  // namespace kvist::gateway::dialect_test

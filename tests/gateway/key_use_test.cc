// What requests take of their key's tokens, with a gateway and workers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "kvist/gateway/key_file.h"
#include "kvist/net/sha256.h"
#include "running_gateway.h"
#include "streaming_client.h"

namespace kvist::gateway::key_use_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class KeyUseTest : public ::testing::Test {
 protected:
  KeyUseTest() {
    std::ofstream(keys_) << to_line({.name = "alice", .hash = net::sha256("secret")}) << "\n";
    key_.add("Authorization", "Bearer secret");
  }
  ~KeyUseTest() override { std::filesystem::remove(keys_); }

  spec::GatewaySpec with_keys() const {
    auto spec = gateway_spec({&worker_});
    spec.api_keys.file = keys_;
    return spec;
  }
  /// What `requests` cost, when they have ended.
  template <class Requests>
  static double cost(const RunningGateway& gateway, const Requests& requests) {
    const double before = gateway.metric("kvist_gateway_key_tokens_total");
    requests();
    EXPECT_TRUE(await([&] { return gateway.metric("kvist_gateway_key_in_flight") == 0; }));
    return gateway.metric("kvist_gateway_key_tokens_total") - before;
  }

  const std::string keys_ = testing::TempDir() + "kvist_key_use_" + std::to_string(::getpid());
  net::Headers key_;
  FakeWorker worker_{"w"};
  /// Its estimate is a hundred tokens and more.
  const std::string body_ = chat_body(std::string(400, 'x'));
};

TEST_F(KeyUseTest, WhatIsRefusedCostsNothing) {
  auto spec = with_keys();
  spec.max_in_flight = 1;
  const RunningGateway gateway(std::move(spec));
  for (const int status : {400, 404, 503}) {
    worker_.set_script(FakeWorker::answer_of(status, R"({"error":{"message":"no"}})"));
    EXPECT_EQ(cost(gateway, [&] { EXPECT_EQ(gateway.chat(body_, key_).status, status); }), 0) << status;
  }
  worker_.set_script(worker_.silence());
  StreamingClient first(gateway.url(), "/v1/chat/completions", chat_body("Hello"), false, key_);
  ASSERT_TRUE(await([&] { return worker_.posts().size() == 4; }));
  const double before = gateway.metric("kvist_gateway_key_tokens_total");
  EXPECT_EQ(gateway.chat(body_, key_).status, 503) << "one is in flight";
  EXPECT_EQ(gateway.metric("kvist_gateway_key_tokens_total"), before);
}

TEST_F(KeyUseTest, OtherEndpointsAreNoWayAroundTheLimit) {
  const RunningGateway gateway(with_keys());
  const auto post = [&](const char* path) {
    return [&gateway, path, this] { EXPECT_EQ(gateway.call("POST", path, body_, key_).status, 200); };
  };
  worker_.set_script(
      FakeWorker::answer_of(200, R"({"choices":[],"usage":{"prompt_tokens":50,"completion_tokens":70}})"));
  EXPECT_EQ(cost(gateway, post("/invocations")), 120);
  worker_.set_script(FakeWorker::stream_of({kRoleEvent, text_event("a"), kUsageEvent, kDoneEvent}));
  EXPECT_EQ(cost(gateway, post("/invocations")), 52);
  const double estimate = static_cast<double>(body_.size() / 4);
  worker_.set_script(FakeWorker::stream_of({kRoleEvent, text_event("a"), text_event("b"), kDoneEvent}));
  EXPECT_EQ(cost(gateway, post("/invocations")), estimate + 2);
  worker_.set_script(FakeWorker::stream_of({"event: other\ndata: {\"x\":1}\n\n", "no event at all"}));
  EXPECT_EQ(cost(gateway, post("/invocations")), estimate);
  for (const char* const other : {"no JSON", R"({"data":[{"embedding":[0.5]}],"usage":{"prompt_tokens":8}})"}) {
    worker_.set_script(FakeWorker::answer_of(200, other));
    EXPECT_EQ(cost(gateway, post("/v1/embeddings")), estimate) << other;
  }
}

TEST_F(KeyUseTest, AnswersTooLargeToBeReadCostTheirBytes) {
  const RunningGateway gateway(with_keys());
  const auto post = [&] { EXPECT_EQ(gateway.call("POST", "/invocations", body_, key_).status, 200); };
  const double estimate = static_cast<double>(body_.size() / 4);
  const std::string large(std::size_t{5} << 18, 'x');
  const std::string json =
      R"({"choices":[{"text":")" + large + R"("}],"usage":{"prompt_tokens":1,"completion_tokens":1}})";
  worker_.set_script(FakeWorker::answer_of(200, json));
  EXPECT_EQ(cost(gateway, post), estimate + static_cast<double>(json.size() / 4));
  worker_.set_script(
      FakeWorker::stream_of({kRoleEvent, "data: {\"text\":\"" + large + "\"}\n\n", kUsageEvent, kDoneEvent}));
  EXPECT_GE(cost(gateway, post), estimate + (1 << 20) / 4.0);
}

// A client must not be able to have the gateway charge it the estimate, which is far below what some bodies take.
TEST_F(KeyUseTest, UsageIsAskedForWhateverTheClientSays) {
  const RunningGateway gateway(with_keys());
  worker_.set_script(FakeWorker::stream_of({kRoleEvent, text_event("a"), kUsageEvent, kDoneEvent}));
  const std::string deep = std::string(70, '[') + std::string(70, ']');
  const std::vector<std::string> bodies{
      chat_body("x", R"("stream":true,"stream_options":{"continuous_usage_stats":true})"),
      chat_body("x", R"("stream":true,"x":)" + deep),
      chat_body("x", R"("stream":true,"stream_options":{"continuous_usage_stats":true},"x":)" + deep)};
  for (const std::string& body : bodies) {
    std::string answer;
    EXPECT_EQ(cost(gateway, [&] { answer = gateway.chat(body, key_).body; }), 52) << body;
    EXPECT_THAT(worker_.posts().back().body, HasSubstr(R"("include_usage":true)"));
    EXPECT_THAT(answer, Not(HasSubstr("usage"))) << "the client did not ask for it";
  }
  const std::string whole = chat_body("x", R"("stream":false,"x":)" + deep);
  (void)cost(gateway, [&] { (void)gateway.chat(whole, key_); });
  EXPECT_EQ(worker_.posts().back().body, whole) << "there is no stream";
  const std::string asks = chat_body("x", R"("stream":true,"stream_options":{"include_usage":true},"x":)" + deep);
  EXPECT_THAT(gateway.chat(asks, key_).body, HasSubstr("usage"));
}

TEST_F(KeyUseTest, WithoutUsageThePromptAndTheTextCount) {
  const RunningGateway gateway(with_keys());
  const std::string text = text_event(std::string(400, 'a'));  // many tokens in one event
  worker_.set_script(FakeWorker::stream_of({kRoleEvent, text, text, kDoneEvent}));
  const std::string ids = R"({"model":"m","stream":true,"prompt":[1)";
  std::string body = ids;
  for (int i = 0; i < 999; ++i) body += ",1";
  body += "]}";
  const auto ask = [&] { EXPECT_EQ(gateway.call("POST", "/v1/completions", body, key_).status, 200); };
  EXPECT_EQ(cost(gateway, ask), 1'000 + 200) << "half of it by the bytes of the body";
}

// Vectors, lists of tokens and files are no generated text, and their length says nothing about what they took.
TEST_F(KeyUseTest, LargeAnswersOfOtherEndpointsCostTheEstimate) {
  const RunningGateway gateway(with_keys());
  const double estimate = static_cast<double>(body_.size() / 4);
  const std::string vectors = R"({"object":"list","data":[{"embedding":[)" + std::string(3U << 20, '1') +
                              R"(]}],"usage":{"prompt_tokens":8,"total_tokens":8}})";
  worker_.set_script(FakeWorker::answer_of(200, vectors));
  for (const char* const path : {"/v1/embeddings", "/invocations"})
    EXPECT_EQ(cost(gateway, [&] { EXPECT_EQ(gateway.call("POST", path, body_, key_).body.size(), vectors.size()); }),
              estimate)
        << path;
}

TEST_F(KeyUseTest, AnswersOfUnknownLengthCostWhatTheyWouldWithOne) {
  const RunningGateway gateway(with_keys());
  const double estimate = static_cast<double>(body_.size() / 4);
  const auto cost_of = [&](const std::string& type, const std::string& answer) {
    worker_.set_script([=](const net::HttpRequest&, const FakeWorker::Exchange& exchange) {
      net::Headers headers;
      headers.add("Content-Type", type);
      exchange->begin_stream(200, std::move(headers));
      exchange->write(answer);
      exchange->end_stream();
    });
    return cost(gateway, [&] { EXPECT_EQ(gateway.call("POST", "/invocations", body_, key_).body, answer); });
  };
  const std::string chat = R"({"choices":[],"usage":{"prompt_tokens":50,"completion_tokens":70}})";
  EXPECT_EQ(cost_of("application/json", chat), 120);
  EXPECT_EQ(cost_of("Application/JSON ;charset=utf-8", chat), 120) << "media types have no case";
  EXPECT_EQ(cost_of("Text/Event-Stream", "data: " + chat + "\n\n"), 120);
  EXPECT_EQ(cost_of("application/json", R"({"count":8,"tokens":[1,2,3,4,5,6,7,8]})"), estimate);
  EXPECT_EQ(cost_of("text/event-streams", "data: " + chat + "\n\n"), estimate);
}

TEST_F(KeyUseTest, AModelThatDoesNotExistCostsNothing) {
  const FakeWorker other("other");
  auto spec = with_keys();
  static_cast<spec::ServedModelSpec&>(spec) = {};
  for (const char* const name : {"m", "n"}) {
    spec::ServedModelSpec model = gateway_spec({&worker_});
    model.model = name;
    if (spec.models.size() == 1) model.workers[0] = other.upstream();
    spec.models.push_back(std::move(model));
  }
  const RunningGateway gateway(std::move(spec), false);
  const std::string unknown =
      R"({"model":"huge","messages":[{"role":"user","content":")" + std::string(400, 'x') + "\"}]}";
  EXPECT_EQ(cost(gateway, [&] { EXPECT_EQ(gateway.chat(unknown, key_).status, 404); }), 0);
}

}  // namespace
}  // namespace kvist::gateway::key_use_test

// A gateway that serves several models.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "running_gateway.h"

namespace kvist::gateway::several_models_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

std::string body_for(std::string_view model) {
  return fmt::format(R"({{"messages":[{{"role":"user","content":"hi"}}],"model":"{}"}})", model);
}

std::string list_of(std::string_view id, int max_model_len) {
  return fmt::format(R"({{"object":"list","data":[{{"id":"{}","object":"model","max_model_len":{}}}]}})", id,
                     max_model_len);
}

class SeveralModelsTest : public ::testing::TestWithParam<std::uint32_t> {
 protected:
  SeveralModelsTest() {
    small_.set_models(FakeWorker::answer_of(200, list_of("small", 1'000)));
    large_.set_models(FakeWorker::answer_of(200, list_of("large", 9'000)));
    for (FakeWorker* worker : {&small_, &large_}) worker->set_script(FakeWorker::answer_of(200, kAnswer));
  }

  /// Two models with a worker each.
  [[nodiscard]] spec::GatewaySpec spec() const {
    spec::GatewaySpec result;
    result.threads = GetParam();
    for (const FakeWorker* worker : {&small_, &large_}) {
      spec::ServedModelSpec model = gateway_spec({worker});
      model.model = worker->upstream().name;
      result.models.push_back(std::move(model));
    }
    result.models[1].model_aliases = {"gpt-4o"};
    result.models[1].mode = spec::RoutingMode::kKv;
    return result;
  }
  static bool await_healthy(const RunningGateway& gateway, double workers = 2) {
    return await([&] { return gateway.metric("kvist_gateway_worker_healthy") == workers; });
  }
  static std::string worker_of(const net::HttpResponse& answer) {
    return std::string(answer.headers.find("x-kvist-worker").value_or("none"));
  }

  static constexpr const char* kAnswer =
      R"({"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":)"
      R"({"role":"assistant","content":"yes"},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":4,)"
      R"("completion_tokens":1,"total_tokens":5,"prompt_tokens_details":{"cached_tokens":0}}})";

  FakeWorker small_{"small"};
  FakeWorker large_{"large"};
};

TEST_P(SeveralModelsTest, EachRequestGoesToItsModel) {
  const RunningGateway gateway(spec(), false);
  ASSERT_TRUE(await_healthy(gateway));
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(worker_of(gateway.chat(body_for("small"))), "small");
    EXPECT_EQ(worker_of(gateway.chat(body_for("large"))), "large");
  }
  EXPECT_EQ(worker_of(gateway.chat(body_for("gpt-4o"))), "large");
  EXPECT_THAT(large_.posts().back().body, HasSubstr(R"("model":"large")")) << "the workers see the model's own name";
  EXPECT_EQ(worker_of(gateway.call("POST", "/v1/completions", R"({"prompt":"a","model":"small"})")), "small");
  EXPECT_EQ(worker_of(gateway.call("POST", "/v1/embeddings", R"({"input":"a","model":"large"})")), "large");
  net::Headers field;
  field.add("X-Gateway-Model-Name", "large");
  EXPECT_EQ(worker_of(gateway.call("POST", "/v1/audio/transcriptions", "no JSON", field)), "large");
  const auto message = gateway.call("POST", "/v1/messages",
                                    R"({"model":"gpt-4o","max_tokens":9,"messages":[{"role":"user","content":"hi"}]})");
  EXPECT_EQ(message.status, 200) << message.body;
  EXPECT_THAT(message.body, HasSubstr(R"("type":"message")"));
}

TEST_P(SeveralModelsTest, AModelThatDoesNotExistIsNotFound) {
  const RunningGateway gateway(spec(), false);
  ASSERT_TRUE(await_healthy(gateway));
  net::Headers id;
  id.add("X-Request-Id", "r-1");
  const auto unknown = gateway.chat(body_for("huge"), id);
  EXPECT_EQ(unknown.status, 404);
  EXPECT_EQ(unknown.headers.find("X-Request-Id"), "r-1");
  EXPECT_EQ(unknown.body, R"({"error":{"message":"The model \"huge\" does not exist; this gateway serves \"small\", )"
                          R"(\"large\"","type":"invalid_request_error","param":"model","code":"model_not_found"}})");
  const auto missing = gateway.chat(R"({"messages":[]})");
  EXPECT_EQ(missing.status, 400);
  EXPECT_THAT(missing.body, AllOf(HasSubstr(R"("param":"model")"), HasSubstr("small"), HasSubstr("large")));
  const auto broken = gateway.chat("{x");
  EXPECT_EQ(broken.status, 400);
  EXPECT_THAT(broken.body, HasSubstr("not valid JSON"));
  EXPECT_THAT(gateway.chat(R"({"messages":[],"model":5})").body, HasSubstr("model: expected a string"));
  const auto message = gateway.call("POST", "/v1/messages",
                                    R"({"model":"huge","max_tokens":9,"messages":[{"role":"user","content":"hi"}]})");
  EXPECT_EQ(message.status, 404);
  EXPECT_THAT(message.body, AllOf(HasSubstr(R"("type":"not_found_error")"), HasSubstr(R"("request_id":"req-)")));
  EXPECT_THAT(std::string(message.headers.find("X-Request-Id").value_or("")), ::testing::StartsWith("req-"));
  EXPECT_EQ(gateway.metric("kvist_gateway_refused_requests_total", "model", ""), 5);
  EXPECT_THAT(small_.posts(), IsEmpty());
  EXPECT_THAT(large_.posts(), IsEmpty());
}

TEST_P(SeveralModelsTest, AllModelsAreListed) {
  const RunningGateway gateway(spec(), false);
  ASSERT_TRUE(await_healthy(gateway));
  const std::string list = gateway.get("/v1/models").body;
  EXPECT_THAT(list, AllOf(HasSubstr(R"("id":"small","object":"model","max_model_len":1000)"),
                          HasSubstr(R"("id":"large","object":"model","max_model_len":9000)")));
  EXPECT_THAT(list, HasSubstr(R"("id":"gpt-4o","object":"model","owned_by":"kvist","root":"large")"));
  EXPECT_THAT(gateway.get("/v1/models/gpt-4o").body, HasSubstr(R"("max_model_len":9000)"));
  EXPECT_THAT(gateway.get("/v1/models/small").body, HasSubstr(R"("max_model_len":1000)"));
  EXPECT_EQ(gateway.get("/v1/models/huge").status, 404);
  large_.stop();
  EXPECT_THAT(gateway.get("/v1/models").body, AllOf(HasSubstr(R"("id":"small")"), HasSubstr(R"("id":"large")")));
}

TEST_P(SeveralModelsTest, AnAdapterIsFoundWhereItIsListed) {
  large_.set_models(FakeWorker::answer_of(
      200,
      R"({"object":"list","data":[{"id":"large","object":"model"},{"id":"sql","object":"model","parent":"large"}]})"));
  const RunningGateway gateway(spec(), false);
  ASSERT_TRUE(await_healthy(gateway));
  ASSERT_TRUE(await([&] { return gateway.chat(body_for("sql")).status == 200; }));
  EXPECT_EQ(worker_of(gateway.chat(body_for("sql"))), "large");
  EXPECT_THAT(large_.posts().back().body, HasSubstr(R"("model":"sql")"));
  EXPECT_THAT(gateway.get("/v1/models/sql").body, HasSubstr(R"("parent":"large")"));
}

TEST_P(SeveralModelsTest, OneModelsTroubleIsItsOwn) {
  const RunningGateway gateway(spec(), false);
  ASSERT_TRUE(await_healthy(gateway));
  small_.stop();
  EXPECT_EQ(gateway.chat(body_for("small")).status, 503);
  EXPECT_EQ(gateway.chat(body_for("large")).status, 200);
  EXPECT_EQ(gateway.get("/health").status, 200) << "something is served";
  EXPECT_EQ(gateway.metric("kvist_gateway_in_flight", "model", "small"), 0);
  EXPECT_EQ(gateway.metric("kvist_gateway_retries_total", "model", "large"), 0);
  EXPECT_EQ(gateway.metric("kvist_gateway_worker_healthy", "model", "large"), 1);
}

TEST_P(SeveralModelsTest, AdministrationSaysWhichModel) {
  const RunningGateway gateway(spec(), false);
  ASSERT_TRUE(await_healthy(gateway));
  EXPECT_EQ(gateway.get("/admin/router_mode").body,
            R"({"models":[{"model":"small","mode":"round_robin"},{"model":"large","mode":"kv"}]})");
  EXPECT_EQ(gateway.get("/admin/router_mode?model=gpt-4o").body, R"({"model":"large","mode":"kv"})");
  const auto unsaid = gateway.call("PUT", "/admin/router_mode", R"({"mode":"random"})");
  EXPECT_EQ(unsaid.status, 400);
  EXPECT_THAT(unsaid.body, HasSubstr(R"(model: missing; this gateway serves \"small\", \"large\")"));
  EXPECT_EQ(gateway.call("PUT", "/admin/router_mode", R"({"model":"huge","mode":"random"})").status, 404);
  EXPECT_EQ(gateway.call("PUT", "/admin/router_mode", R"({"model":"small","mode":"random"})").body,
            R"({"model":"small","mode":"random"})");
  EXPECT_EQ(gateway.get("/admin/router_mode?model=large").body, R"({"model":"large","mode":"kv"})");

  net::Headers id;
  id.add("X-Request-Id", "r-large");
  ASSERT_EQ(gateway.chat(body_for("large"), id).status, 200);
  EXPECT_EQ(gateway.get("/admin/decisions").status, 400);
  EXPECT_THAT(gateway.get("/admin/decisions?model=large").body, HasSubstr("r-large"));
  EXPECT_THAT(gateway.get("/admin/decisions?model=small").body, Not(HasSubstr("r-large")));
  EXPECT_THAT(gateway.get("/admin/decisions?request=r-large").body,
              AllOf(HasSubstr(R"("model":"large")"), HasSubstr("r-large")));
  const std::string status = gateway.get("/admin/status").body;
  EXPECT_THAT(status, HasSubstr(R"({"in_flight":0,"models":[{"model":"small","mode":"random","leaving":false,)"));
  EXPECT_THAT(status, HasSubstr(R"("aliases":["gpt-4o"])"));
}

TEST_P(SeveralModelsTest, AWorkerServesOneModel) {
  const RunningGateway gateway(spec(), false);
  ASSERT_TRUE(await_healthy(gateway));
  const auto add = [&](std::string_view fields) {
    return gateway.call("POST", "/admin/workers", fmt::format("{{{}}}", fields));
  };
  const auto taken = add(fmt::format(R"("model":"large","name":"x","url":"{}")", small_.upstream().url));
  EXPECT_EQ(taken.status, 400);
  EXPECT_THAT(taken.body, HasSubstr(R"(is that of small, a worker of the model \"small\": a worker serves one model)"));
  const auto name = add(R"("model":"large","name":"small","url":"http://127.0.0.1:1")");
  EXPECT_EQ(name.status, 400);
  EXPECT_EQ(add(R"("name":"x","url":"http://127.0.0.1:1")").status, 400) << "which model?";
  FakeWorker third("third");
  third.set_models(FakeWorker::answer_of(200, list_of("large", 9'000)));
  third.set_script(FakeWorker::answer_of(200, kAnswer));
  const auto added = add(fmt::format(R"("model":"gpt-4o","name":"third","url":"{}")", third.upstream().url));
  EXPECT_EQ(added.status, 201) << added.body;
  EXPECT_THAT(added.body, HasSubstr(R"("model":"large")"));
  ASSERT_TRUE(await_healthy(gateway, 3));
  EXPECT_EQ(gateway.call("POST", "/admin/workers/remove", R"({"name":"large"})").status, 202);
  ASSERT_TRUE(await_healthy(gateway, 2));
  EXPECT_EQ(worker_of(gateway.chat(body_for("large"))), "third");
  EXPECT_EQ(worker_of(gateway.chat(body_for("small"))), "small");
}

TEST(OneModelTest, AListOfOneServesItWithoutItsName) {
  FakeWorker worker("w");
  spec::GatewaySpec spec;
  spec.threads = 1;
  spec.models.push_back(gateway_spec({&worker}));
  const RunningGateway gateway(std::move(spec), false);
  ASSERT_TRUE(await([&] { return gateway.metric("kvist_gateway_worker_healthy", "model", "m") == 1; }));
  EXPECT_EQ(gateway.chat(R"({"stream":true,"messages":[{"role":"user","content":"x"}]})").status, 200);
  EXPECT_EQ(gateway.chat(chat_body("x")).status, 200);
  EXPECT_THAT(worker.posts(), SizeIs(2));
  EXPECT_EQ(gateway.call("PUT", "/admin/router_mode", R"({"mode":"random"})").status, 200);
}

INSTANTIATE_TEST_SUITE_P(Threads, SeveralModelsTest, ::testing::Values(1, 3));

}  // namespace
}  // namespace kvist::gateway::several_models_test

// A gateway's list of models, and deployments whose gateway has one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "kvist/spec/deployment.h"
#include "spec/parsed.h"

namespace kvist::spec::served_models_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr const char* kTwo = R"(mode: kv
block_size: 16
max_retries: 5
admission: {max_wait: 3 s}
threads: 2
models:
  - name: meta-llama/Llama-3.1-8B
    aliases: [llama, gpt-4o]
    tokenizer: /models/llama
    workers:
      - {name: a, url: "http://10.0.0.1:8000", kv_events: "tcp://10.0.0.1:5557"}
      - {url: "http://10.0.0.2:8000"}
  - name: qwen
    mode: round_robin
    block_size: 32
    admission: {standing_wait: 50 ms}
    record: qwen.jsonl
    workers:
      - {url: "http://10.0.0.3:8000"}
      - {name: pool, dns: {name: qwen.example, port: 8000}}
)";

TEST(ServedModelsTest, EachModelHasWhatItLeavesOutFromTheGateway) {
  const auto gateway = read_gateway(parsed(kTwo), "/etc/kvist");
  ASSERT_TRUE(gateway) << gateway.error().message;
  ASSERT_EQ(gateway->models.size(), 2U);
  EXPECT_EQ(gateway->threads, 2U);
  const ServedModelSpec& llama = gateway->models[0];
  EXPECT_EQ(llama.model, "meta-llama/Llama-3.1-8B");
  EXPECT_EQ(llama.model_aliases, (std::vector<std::string>{"llama", "gpt-4o"}));
  EXPECT_EQ(llama.tokenizer, "/models/llama");
  EXPECT_EQ(llama.mode, RoutingMode::kKv);
  EXPECT_EQ(llama.block_size, 16U);
  EXPECT_EQ(llama.admission.max_wait, std::chrono::seconds(3));
  ASSERT_EQ(llama.workers.size(), 2U);
  EXPECT_EQ(llama.workers[1].name, "worker-1");
  const ServedModelSpec& qwen = gateway->models[1];
  EXPECT_EQ(qwen.mode, RoutingMode::kRoundRobin);
  EXPECT_EQ(qwen.block_size, 32U);
  EXPECT_EQ(qwen.max_retries, 5U);
  EXPECT_EQ(qwen.admission.max_wait, std::chrono::seconds(3)) << "of a mapping, what is left out is the gateway's too";
  EXPECT_EQ(qwen.admission.standing_wait, std::chrono::milliseconds(50));
  EXPECT_EQ(qwen.tokenizer, "");
  EXPECT_EQ(qwen.record.file, "/etc/kvist/qwen.jsonl");
  EXPECT_EQ(qwen.workers[0].name, "worker-2") << "numbers go on";
  EXPECT_EQ(qwen.worker_groups[0].name, "pool");
  EXPECT_EQ(static_cast<const ServedModelSpec&>(*gateway), ServedModelSpec{});
  EXPECT_EQ(served_models(*gateway), gateway->models);
  const auto again = read_gateway(parsed(to_yaml(*gateway)));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(*again, *gateway);
}

TEST(ServedModelsTest, WithoutAListTheGatewayIsItsModel) {
  const auto gateway = read_gateway(parsed("model: m\nmodel_aliases: [n]\nmode: kv\n"));
  ASSERT_TRUE(gateway);
  const auto models = served_models(*gateway);
  ASSERT_EQ(models.size(), 1U);
  EXPECT_EQ(models[0].model, "m");
  EXPECT_EQ(models[0].mode, RoutingMode::kKv);
}

TEST(ServedModelsTest, WhatTwoModelsCannotShareIsRefused) {
  const auto refusal = [](const std::string& first, const std::string& second) {
    return message(read_gateway(parsed("models:\n  - " + first + "\n  - " + second + "\n")));
  };
  const std::string a = R"({name: a, aliases: [x], workers: [{name: w, url: "http://h:1"}], record: r.jsonl})";
  EXPECT_EQ(refusal(a, R"({name: b, workers: [{name: v, url: "http://h:2"}]})"), "no error");
  EXPECT_THAT(refusal(a, "{name: a}"), AllOf(StartsWith("test.yaml:3: "), HasSubstr(R"(name "a" is that of)")));
  EXPECT_THAT(refusal(a, "{name: x}"), HasSubstr(R"(the name "x" is that of the model "a" already)"));
  EXPECT_THAT(refusal(a, "{name: b, aliases: [a]}"), HasSubstr(R"(the name "a" is that of the model "a" already)"));
  EXPECT_THAT(refusal(a, R"({name: b, workers: [{name: w, url: "http://h:2"}]})"),
              HasSubstr(R"(the worker "w" is that of the model "a" already)"));
  EXPECT_THAT(refusal(a, R"({name: b, workers: [{name: v, url: "http://h:1"}]})"),
              AllOf(HasSubstr("v has the url http://h:1 of w, a worker of \"a\": a worker serves one model"),
                    HasSubstr("aliases")));
  EXPECT_THAT(refusal(a, "{name: b, record: r.jsonl}"), HasSubstr(R"(the record "r.jsonl" is that of)"));
}

TEST(ServedModelsTest, WhatBelongsToAModelIsNotBesideTheList) {
  for (const std::string key : {"model: m", "model_aliases: [n]", "tokenizer: t", "workers: [{url: \"http://h:1\"}]",
                                "max_workers: 9", "record: r.jsonl"}) {
    EXPECT_THAT(message(read_gateway(parsed("models: [{name: a}]\n" + key + "\n"))),
                AllOf(StartsWith("test.yaml:2: "), HasSubstr("belongs into an element of `models`")))
        << key;
  }
  const auto refusal = [](const std::string& list) { return message(read_gateway(parsed("models: " + list + "\n"))); };
  EXPECT_THAT(refusal("[]"), HasSubstr("expected 1 to 64 models, got 0"));
  EXPECT_THAT(refusal("[{mode: kv}]"), HasSubstr("\"name\" is missing"));
  EXPECT_THAT(refusal("[{name: a, threads: 2}]"), HasSubstr("threads"));
  EXPECT_THAT(refusal("[{name: a, mode: fastest}]"), HasSubstr("mode"));
}

TEST(ServedModelsTest, TheWorkersOfADeploymentFindTheirModel) {
  const auto deployment = read_deployment(parsed(R"(
gateway: {models: [{name: a, mode: kv}, {name: b, aliases: [c]}]}
workers:
  - {name: a0, model: a, block_size: 16}
  - {name: b0, model: b, tokenizer: /t}
  - {name: a1, model: a, block_size: 16}
)"));
  ASSERT_TRUE(deployment) << deployment.error().message;
  EXPECT_EQ(deployment->gateway.models[0].block_size, 16U);
  EXPECT_EQ(deployment->gateway.models[1].tokenizer, "/t");
  const auto again = read_deployment(parsed(to_yaml(*deployment)));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(*again, *deployment);
  const auto refusal = [](const std::string& workers) {
    return message(read_deployment(parsed("gateway: {models: [{name: a}, {name: b}]}\nworkers: " + workers + "\n")));
  };
  EXPECT_THAT(refusal("[{name: x, model: a}]"), HasSubstr("no worker serves \"b\""));
  EXPECT_THAT(refusal("[{name: x, model: a}, {name: y, model: b}, {name: z, model: c}]"),
              HasSubstr("z serves \"c\", which is not listed"));
  EXPECT_THAT(refusal("[{name: x, model: a}, {name: y, model: b}, {name: z, model: b, block_size: 64}]"),
              HasSubstr("that of z is 64"));
}

}  // namespace
}  // namespace kvist::spec::served_models_test

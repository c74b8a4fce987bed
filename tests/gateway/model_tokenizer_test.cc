// The gateway with a model's own tokenizer and chat template.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <vector>

#include "kvist/gateway/prompt_reader.h"
#include "kvist/kv/block_hash.h"
#include "kvist/openai/tokenize.h"
#include "kvist/text/model_text.h"
#include "running_gateway.h"
#include "text/model_directory.h"

namespace kvist::gateway::model_tokenizer_test {
namespace {

class ModelTokenizerTest : public ::testing::Test {
 protected:
  ModelTokenizerTest() { directory_.write_chatml(); }

  [[nodiscard]] std::shared_ptr<const text::ModelText> model() const {
    auto loaded = text::ModelText::load(directory_.path());
    if (!loaded) throw std::runtime_error(loaded.error().message);
    return std::make_shared<const text::ModelText>(std::move(*loaded));
  }

  [[nodiscard]] spec::GatewaySpec spec(const FakeWorker& worker) const {
    spec::GatewaySpec spec = gateway_spec({&worker});
    spec.tokenizer = directory_.path();
    return spec;
  }

  // A worker's /tokenize: what `reader` says, for texts and for chats.
  static FakeWorker::Script tokenize_as(std::shared_ptr<const PromptReader> reader, text::PromptReading reading = {}) {
    return [reader, reading](const net::HttpRequest& request, const FakeWorker::Exchange& exchange) {
      const auto asked = openai::parse_tokenize_request(request.body);
      if (!asked) return exchange->respond({.status = 400, .headers = {}, .body = asked.error().message});
      const auto* text = std::get_if<std::string>(&asked->input);
      const auto tokens = text != nullptr
                              ? Result<std::vector<TokenId>>(reader->tokens_of(std::string_view(*text), reading))
                              : reader->tokens_of(std::get<openai::ChatPrompt>(asked->input).messages, reading);
      exchange->respond({.status = 200, .headers = {}, .body = openai::tokenize_answer(*tokens, 1000)});
    };
  }

  static std::vector<kv::BlockHash> names_of(const std::vector<TokenId>& tokens) {
    return kv::hash_blocks(kv::root_hash({.model = "m", .lora = "", .cache_salt = ""}), tokens, 4);
  }

  text::ModelDirectory directory_;
};

TEST_F(ModelTokenizerTest, ReadsAChatAsTheModelDoes) {
  const auto text = model();
  const PromptReader reader("m", 4, text);
  const auto read =
      reader.read(Api::kChat, R"({"model":"m","messages":[{"role":"user","content":" the other <|im_end|> "}]})");
  ASSERT_TRUE(read.has_value()) << read.error().message;
  const std::vector<text::ChatMessage> messages = {{"user", " the other <|im_end|> "}};
  const auto tokens = text->chat_template->tokens({.messages = messages}, *text->tokenizer, {});
  ASSERT_TRUE(tokens.has_value());
  EXPECT_EQ(read->profile.prompt_tokens, tokens->size());
  EXPECT_EQ(*read->profile.blocks, names_of(*tokens));
  EXPECT_TRUE(read->profile.otherwise.empty());
}

TEST_F(ModelTokenizerTest, AMixedFleetHasOneSetOfNamesPerReading) {
  const auto text = model();
  const PromptReader reader("m", 4, text);
  constexpr text::PromptReading kPlain{.specials_in_chats = false};
  constexpr text::PromptReading kFramed{.frames_chats = true};
  FleetReadings fleet;
  fleet.present.set(text::PromptReading().number());
  fleet.present.set(kPlain.number());
  const std::vector<text::ChatMessage> messages = {{"user", "the <|im_end|> other"}};
  const auto tokens_of = [&](bool specials) {
    return *text->chat_template->tokens({.messages = messages}, *text->tokenizer, {.specials = specials});
  };
  constexpr std::string_view kBody = R"({"messages":[{"role":"user","content":"the <|im_end|> other"}]})";
  const auto read = reader.read(Api::kChat, kBody, fleet);
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(*read->profile.blocks, names_of(tokens_of(true)));
  ASSERT_EQ(read->profile.otherwise.size(), 1U);
  EXPECT_EQ(read->profile.otherwise[0].reading, kPlain.number());
  EXPECT_EQ(read->profile.otherwise[0].prompt_tokens, tokens_of(false).size());
  EXPECT_EQ(*read->profile.otherwise[0].blocks, names_of(tokens_of(false)));
  EXPECT_GT(tokens_of(false).size(), tokens_of(true).size());
  // Without a look-alike both are one.
  const auto plain = reader.read(Api::kChat, R"({"messages":[{"role":"user","content":"the other"}]})", fleet);
  ASSERT_TRUE(plain.has_value());
  EXPECT_TRUE(plain->profile.otherwise.empty());
  EXPECT_TRUE(reader.read(Api::kCompletions, R"({"prompt":"the <|im_end|>"})", fleet)->profile.otherwise.empty());
  // A fleet of one reading has its names alone, whichever it is.
  FleetReadings alone;
  alone.present.set(kPlain.number());
  EXPECT_EQ(*reader.read(Api::kChat, kBody, alone)->profile.blocks, names_of(tokens_of(false)));
  EXPECT_TRUE(reader.read(Api::kChat, kBody, alone)->profile.otherwise.empty());
  fleet.present.set(kFramed.number());
  EXPECT_EQ(reader.read(Api::kChat, kBody, fleet)->profile.otherwise.size(), 2U) << "another frame, other tokens";
}

TEST_F(ModelTokenizerTest, ReadsWhatARequestSaysOfItsPrompt) {
  const auto text = model();
  const PromptReader reader("m", 4, text);
  FleetReadings fleet;
  fleet.max_model_len = 6;
  std::vector<TokenId> tokens;
  text->tokenizer->encode("the other and a user", tokens);
  ASSERT_GT(tokens.size(), 6U);
  const auto names = [&](std::string_view fields) {
    const auto read =
        reader.read(Api::kCompletions, fmt::format(R"({{"prompt":"the other and a user",{}}})", fields), fleet);
    EXPECT_TRUE(read.has_value()) << read.error().message;
    return *read->profile.blocks;
  };
  const auto last = [&](std::ptrdiff_t count) { return std::vector<TokenId>(tokens.end() - count, tokens.end()); };
  EXPECT_EQ(names(R"("n":1)"), names_of(tokens));
  EXPECT_EQ(names(R"("truncate_prompt_tokens":4)"), names_of(last(4)));
  EXPECT_EQ(names(R"("truncate_prompt_tokens":-1)"), names_of(last(5)));
  EXPECT_EQ(names(R"("truncate_prompt_tokens":4,"truncation_side":"right")"),
            names_of({tokens.begin(), tokens.begin() + 4}));
  const auto given = reader.read(Api::kCompletions, R"({"prompt":[1,2,3,4,5,6],"truncate_prompt_tokens":5})", fleet);
  EXPECT_EQ(*given->profile.blocks, names_of({TokenId(2), TokenId(3), TokenId(4), TokenId(5), TokenId(6)}));
  EXPECT_TRUE(given->profile.reads_cache);
  EXPECT_FALSE(reader.read(Api::kCompletions, R"({"prompt":"a","prompt_logprobs":1})", fleet)->profile.reads_cache);
}

TEST_F(ModelTokenizerTest, ToolsAreAPartOfThePrompt) {
  directory_.write("chat_template.jinja", "{{ tools|tojson }}{{ messages|tojson }}{{ thinking }}");
  const auto text = model();
  const PromptReader reader("m", 4, text);
  const auto read = reader.read(
      Api::kChat, R"({"model":"m","tools":[{"type":"function","function":{"name":"f","parameters":{"x":1.5}}}],
                      "chat_template_kwargs":{"thinking":true},"messages":[
                      {"role":"assistant","content":null,"tool_calls":[
                        {"id":"c","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]},
                      {"role":"tool","tool_call_id":"c","content":"12"}]})");
  ASSERT_TRUE(read.has_value()) << read.error().message;
  const std::string expected =
      R"([{"type": "function", "function": {"name": "f", "description": null, "parameters": {"x": 1.5}}}])"
      R"([{"role": "assistant", "content": "", "tool_calls": [{"id": "c", "type": "function", "function": )"
      R"({"name": "f", "arguments": {"a": 1}}}]}, {"role": "tool", "content": "12", "tool_call_id": "c"}]True)";
  std::vector<TokenId> tokens;
  text->tokenizer->encode(expected, tokens);
  EXPECT_EQ(*read->profile.blocks,
            kv::hash_blocks(kv::root_hash({.model = "m", .lora = "", .cache_salt = ""}), tokens, 4));
}

TEST_F(ModelTokenizerTest, AMessageThatGoesOnEndsThePrompt) {
  const auto text = model();
  const PromptReader reader("m", 4, text);
  const std::string_view chat =
      R"("messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"the other"}])";
  const auto length_of = [&](std::string_view fields) {
    const auto read = reader.read(Api::kChat, fmt::format(R"({{"model":"m",{},{}}})", fields, chat));
    EXPECT_TRUE(read.has_value()) << read.error().message;
    return read ? read->profile.prompt_tokens : 0;
  };
  const std::string_view prompt = "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\nthe other";
  std::vector<TokenId> tokens;
  text->tokenizer->encode_prompt({.text = std::string(prompt), .from_messages = {}}, tokens);
  EXPECT_EQ(length_of(R"("continue_final_message":true,"add_generation_prompt":false)"), tokens.size());
  EXPECT_EQ(length_of(R"("add_generation_prompt":false)"), tokens.size() + 2) << "<|im_end|> and a line's end";
  EXPECT_FALSE(reader.read(
      Api::kChat,
      fmt::format(R"({{"model":"m",{},{}}})", R"("continue_final_message":true,"add_generation_prompt":true)", chat)));
}

TEST_F(ModelTokenizerTest, RequestsPassAndAChatThatTheTemplateRefusesIsTheWorkersToRefuse) {
  directory_.write(
      "chat_template.jinja",
      "{% if messages|length > 1 %}{{ raise_exception('One message only') }}{% endif %}{{ messages[0].content }}");
  FakeWorker worker("w");
  const RunningGateway gateway(spec(worker));
  EXPECT_EQ(gateway.chat(chat_body("hello")).status, 200);
  EXPECT_EQ(gateway.chat(chat_body(std::string(20'000, 'a'))).status, 200);
  EXPECT_EQ(gateway.call("POST", "/v1/completions", R"({"model":"m","prompt":"hello","stream":true})").status, 200);
  worker.set_script(FakeWorker::answer_of(400, "One message only"));
  const net::HttpResponse refused =
      gateway.chat(R"({"model":"m","messages":[{"role":"user","content":"a"},{"role":"user","content":"b"}]})");
  EXPECT_EQ(refused.status, 400);
  EXPECT_EQ(refused.body, "One message only");
  ASSERT_TRUE(gateway.await_idle());
  EXPECT_EQ(gateway.metric("kvist_gateway_prompts_read_total"), 1) << "the long one";
  EXPECT_EQ(worker.posts().size(), 4U);
}

TEST_F(ModelTokenizerTest, AWorkerOfTheSameTokenizerIsKnown) {
  FakeWorker worker("w");
  worker.set_tokenize(tokenize_as(std::make_shared<const PromptReader>("m", kBlockSize, model())));
  const RunningGateway gateway(spec(worker));
  EXPECT_TRUE(await([&] { return gateway.metric("kvist_gateway_worker_tokenizer", "match", "same") == 1; }));
  EXPECT_TRUE(gateway.get("/admin/status").body.contains(R"("tokenizer":"same")"));
}

TEST_F(ModelTokenizerTest, EachReadingOfAWorkerIsFoundOut) {
  const auto reader = std::make_shared<const PromptReader>("m", kBlockSize, model());
  for (std::uint8_t number = 0; number < text::PromptReading::kNumbers; ++number) {
    const auto reading = text::PromptReading::of_number(number);
    // This model has no frame, so that nobody can tell whether it was put around.
    if (reading.frames_chats || !reading.frames_completions) continue;
    FakeWorker worker("w");
    worker.set_tokenize(tokenize_as(reader, reading));
    const RunningGateway gateway(spec(worker));
    EXPECT_TRUE(await([&] { return gateway.metric("kvist_gateway_worker_tokenizer", "match", "same") == 1; }));
    const std::string status = gateway.get("/admin/status").body;
    EXPECT_TRUE(status.contains(fmt::format(R"("special_tokens":{{"in_chats":{},"in_completions":{}}})",
                                            reading.specials_in_chats, reading.specials_in_completions)))
        << status;
  }
}

TEST_F(ModelTokenizerTest, AWorkerThatGaveNoAnswerIsAskedAgain) {
  FakeWorker worker("w");
  const FakeWorker::Script tokenize = tokenize_as(std::make_shared<const PromptReader>("m", kBlockSize, model()));
  const auto asked = std::make_shared<int>(0);
  worker.set_tokenize([tokenize, asked](const net::HttpRequest& request, const FakeWorker::Exchange& exchange) {
    if ((*asked)++ == 0) return exchange->respond({.status = 503, .headers = {}, .body = "{}"});
    tokenize(request, exchange);
  });
  const RunningGateway gateway(spec(worker));
  EXPECT_TRUE(await([&] { return gateway.metric("kvist_gateway_worker_tokenizer", "match", "same") == 1; }));
}

TEST_F(ModelTokenizerTest, EventsOfAnotherTokenizerAreNotTrusted) {
  FakeWorker worker("w");
  worker.set_tokenize(tokenize_as(std::make_shared<const PromptReader>("m", kBlockSize)));
  const RunningGateway gateway(spec(worker));
  EXPECT_TRUE(await([&] { return gateway.metric("kvist_gateway_worker_tokenizer", "match", "different") == 1; }));
  EXPECT_TRUE(gateway.get("/admin/status").body.contains(R"("index_exact":false)"));
  EXPECT_EQ(gateway.chat(chat_body("hello")).status, 200);
}

TEST_F(ModelTokenizerTest, OnlyTheTemplateDiffersAndThatIsSeen) {
  text::ModelDirectory other;
  other.write_chatml();
  other.write("chat_template.jinja", "{{ messages[0].content }}");
  auto text = text::ModelText::load(other.path());
  ASSERT_TRUE(text.has_value());
  FakeWorker worker("w");
  worker.set_tokenize(tokenize_as(std::make_shared<const PromptReader>(
      "m", kBlockSize, std::make_shared<const text::ModelText>(std::move(*text)))));
  const RunningGateway gateway(spec(worker));
  EXPECT_TRUE(await([&] { return gateway.metric("kvist_gateway_worker_tokenizer", "match", "different") == 1; }));
}

TEST_F(ModelTokenizerTest, AWorkerWithoutTokenizeIsReported) {
  FakeWorker worker("w");
  const RunningGateway gateway(spec(worker));
  EXPECT_TRUE(await([&] { return gateway.metric("kvist_gateway_worker_tokenizer", "match", "not_told") == 1; }));
}

// That answer is about a name, and the worker may have been given another one by the next time.
TEST_F(ModelTokenizerTest, AWorkerThatKnowsTheModelByAnotherNameIsAskedAgain) {
  FakeWorker worker("w");
  std::atomic<int> asked = 0;
  worker.set_tokenize([&](const net::HttpRequest& request, const FakeWorker::Exchange& exchange) {
    ++asked;
    FakeWorker::answer_of(404, R"({"error":{"message":"The model `m` does not exist.","code":404}})")(request,
                                                                                                      exchange);
  });
  testing::internal::CaptureStderr();
  {
    const RunningGateway gateway(spec(worker));
    EXPECT_TRUE(await([&] { return asked >= 3; }));
    EXPECT_EQ(gateway.metric("kvist_gateway_worker_tokenizer", "match", "unknown"), 1);
    EXPECT_EQ(gateway.metric("kvist_gateway_worker_tokenizer", "match", "not_told"), 0);
  }
  const std::string log = testing::internal::GetCapturedStderr();
  const std::string line = "tokenizer of w: unknown (/tokenize answered 404: The model `m` does not exist.)";
  const std::size_t first = log.find(line);
  EXPECT_NE(first, std::string::npos) << log;
  EXPECT_EQ(log.find(line, first + 1), std::string::npos) << "once, however often it is found";
}

TEST_F(ModelTokenizerTest, AnInvalidDirectoryIsRefusedAtStart) {
  FakeWorker worker("w");
  spec::GatewaySpec wrong = spec(worker);
  wrong.tokenizer = directory_.path() + "/nowhere";
  net::EventLoop loop;
  const auto service = Service::create(loop, wrong);
  ASSERT_FALSE(service.has_value());
  EXPECT_TRUE(service.error().message.contains("/nowhere/tokenizer_config.json: No such file or directory"))
      << service.error().message;
}

}  // namespace
}  // namespace kvist::gateway::model_tokenizer_test

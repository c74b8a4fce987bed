#include <gtest/gtest.h>

#include <string>

#include "kvist/openai/chunk_writer.h"
#include "kvist/openai/codec.h"
#include "kvist/openai/tokenize.h"

namespace kvist::openai::answer_test {
namespace {

const AnswerHead kChat{.id = "chatcmpl-1", .model = "m\"1", .created = 1'700'000'000, .chat = true};
const AnswerHead kText{.id = "cmpl-1", .model = "m", .created = 1'700'000'000, .chat = false};
const Usage kUsage{.prompt_tokens = 10, .completion_tokens = 5, .cached_tokens = 8};

TEST(ChatChunks, HaveTheShapeOfTheApi) {
  const std::string head =
      R"({"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"m\"1","choices":[)";
  EXPECT_EQ(role_chunk(kChat, 0), head + R"({"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,)" +
                                      R"("finish_reason":null}]})");
  EXPECT_EQ(text_chunk(kChat, 2, "a\"\n"),
            head + R"({"index":2,"delta":{"content":"a\"\n"},"logprobs":null,"finish_reason":null}]})");
  EXPECT_EQ(finish_chunk(kChat, 0, "stop"),
            head + R"({"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}]})");
  EXPECT_EQ(usage_chunk(kChat, kUsage),
            head + R"(],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,)" +
                R"("prompt_tokens_details":{"cached_tokens":8}}})");
}

TEST(CompletionChunks, HaveTheShapeOfTheApi) {
  const std::string head = R"({"id":"cmpl-1","object":"text_completion","created":1700000000,"model":"m","choices":[)";
  EXPECT_EQ(text_chunk(kText, 1, "x"), head + R"({"index":1,"text":"x","logprobs":null,"finish_reason":null}]})");
  EXPECT_EQ(finish_chunk(kText, 1, "length"),
            head + R"({"index":1,"text":"","logprobs":null,"finish_reason":"length"}]})");
}

TEST(ChunkWriter, NamesTheStopStringThatEndedAnAnswer) {
  std::string out;
  ChunkWriter(kText).append_finish(out, 0, "stop", "\n\"");
  EXPECT_TRUE(out.ends_with(R"({"index":0,"text":"","logprobs":null,"finish_reason":"stop","stop_reason":"\n\""}]})"))
      << out;
  const std::string whole = whole_answer(kText, {{.text = "a", .finish_reason = "stop", .stop_reason = "\n"}}, kUsage);
  EXPECT_TRUE(whole.contains(R"("logprobs":null,"finish_reason":"stop","stop_reason":"\n"}],)")) << whole;
}

TEST(ChunkWriter, AppendsToWhatIsThere) {
  const ChunkWriter writer(kText);
  std::string out = "data: ";
  writer.append_text(out, 0, "x");
  EXPECT_EQ(out, "data: " + text_chunk(kText, 0, "x"));
}

TEST(ChunkWriter, PutsTokensAndUsageIntoAChunk) {
  const std::vector<TokenId> tokens = {TokenId(0), TokenId(4'294'967'295U)};
  const std::string begin = text_chunk(kText, 0, "x").substr(0, text_chunk(kText, 0, "x").size() - 3);
  std::string out = text_chunk(kText, 0, "x");
  ChunkWriter::add_to_choice(out, "token_ids", tokens);
  ChunkWriter::add_to_choice(out, "prompt_token_ids", {});
  ChunkWriter::add_usage(out, kUsage);
  EXPECT_EQ(out, begin + R"(,"token_ids":[0,4294967295],"prompt_token_ids":[]}],)" +
                     R"("usage":{"prompt_tokens":10,"total_tokens":15,"completion_tokens":5}})");
  out = role_chunk(kChat, 0);
  ChunkWriter::add_prompt_tokens(out, tokens);
  EXPECT_TRUE(out.ends_with(R"("finish_reason":null}],"prompt_token_ids":[0,4294967295]})")) << out;
}

TEST(WholeAnswer, HoldsTheTokensOfPromptAndChoicesWhereVllmHasThem) {
  const WholeChoice choice{
      .text = "a", .finish_reason = "stop", .tokens = {{TokenId(7)}}, .prompt_tokens = {{TokenId(1)}}};
  const std::string chat = whole_answer(kChat, {choice}, kUsage);
  EXPECT_TRUE(chat.contains(R"("finish_reason":"stop","token_ids":[7]}],"usage")")) << chat;
  EXPECT_TRUE(chat.ends_with(R"(},"prompt_token_ids":[1]})")) << chat;
  const std::string completion = whole_answer(kText, {choice}, kUsage);
  EXPECT_TRUE(completion.contains(R"("finish_reason":"stop","token_ids":[7],"prompt_token_ids":[1]}])")) << completion;
}

TEST(WholeAnswer, HasTheShapeOfTheApi) {
  EXPECT_EQ(whole_answer(kChat, {{.text = "hi", .finish_reason = "stop"}}, kUsage),
            R"({"id":"chatcmpl-1","object":"chat.completion","created":1700000000,"model":"m\"1","choices":[)"
            R"({"index":0,"message":{"role":"assistant","content":"hi"},"logprobs":null,"finish_reason":"stop"}],)"
            R"("usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,)"
            R"("prompt_tokens_details":{"cached_tokens":8}}})");
  EXPECT_EQ(whole_answer(kText, {{.text = "a", .finish_reason = "stop"}, {.text = "b", .finish_reason = "length"}}, {}),
            R"({"id":"cmpl-1","object":"text_completion","created":1700000000,"model":"m","choices":[)"
            R"({"index":0,"text":"a","logprobs":null,"finish_reason":"stop"},)"
            R"({"index":1,"text":"b","logprobs":null,"finish_reason":"length"}],)"
            R"("usage":{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0,)"
            R"("prompt_tokens_details":{"cached_tokens":0}}})");
}

TEST(ChatChunks, CarryCallsOfTools) {
  const ChunkWriter writer(kChat);
  const std::string head = role_chunk(kChat, 1).substr(0, role_chunk(kChat, 1).find("\"delta\""));
  std::string out;
  writer.append_call(out, 1, 2, {.id = "call_1", .name = "f\"", .arguments = "{}"});
  EXPECT_EQ(out, head + R"("delta":{"tool_calls":[{"index":2,"id":"call_1","type":"function",)"
                        R"("function":{"name":"f\"","arguments":""}}]},"logprobs":null,"finish_reason":null}]})");
  out.clear();
  writer.append_arguments(out, 1, 2, R"({"a)");
  EXPECT_EQ(out, head + R"("delta":{"tool_calls":[{"index":2,"function":{"arguments":"{\"a"}}]},)"
                        R"("logprobs":null,"finish_reason":null}]})");
}

TEST(WholeAnswer, HasCallsBesideItsText) {
  const std::vector<text::ToolCall> calls = {{.id = "c", .name = "f", .arguments = R"({"a":1})"}};
  const std::string alone = whole_answer(kChat, {{.text = "", .finish_reason = "tool_calls", .tool_calls = calls}}, {});
  EXPECT_TRUE(alone.contains(
      R"("message":{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function",)"
      R"("function":{"name":"f","arguments":"{\"a\":1}"}}]},"logprobs":null,"finish_reason":"tool_calls"})"))
      << alone;
  EXPECT_TRUE(whole_answer(kChat, {{.text = "x", .finish_reason = "stop", .tool_calls = calls}}, {})
                  .contains(R"("content":"x","tool_calls":[{)"));
}

TEST(ModelList, NamesModelsAndTheirContext) {
  EXPECT_EQ(model_list({"m"}, 7, 16'384),
            R"({"object":"list","data":[{"id":"m","object":"model","created":7,"owned_by":"kvist","root":"m",)"
            R"("parent":null,"max_model_len":16384}]})");
}

TEST(TokenizeAnswers, HaveTheShapeOfVllm) {
  const std::vector<TokenId> tokens{TokenId(1), TokenId(2)};
  EXPECT_EQ(tokenize_answer(tokens, 9), R"({"count":2,"max_model_len":9,"tokens":[1,2],"token_strs":null})");
  const std::vector<std::string> spellings = {"a",
                                              "\xC4\xA0"
                                              "b"};
  EXPECT_EQ(tokenize_answer(tokens, 9, spellings),
            "{\"count\":2,\"max_model_len\":9,\"tokens\":[1,2],\"token_strs\":[\"a\",\"\xC4\xA0"
            "b\"]}");
  EXPECT_EQ(detokenize_answer("hi"), R"({"prompt":"hi"})");
}

TEST(ChatRequestBody, IsWhatTheParserReads) {
  const ClientChatRequest sent{.model = "m",
                               .messages = {{"user", "q\"\xC3\xA9"}, {"assistant", "a"}},
                               .max_tokens = 12,
                               .seed = ~std::uint64_t{0},
                               .stream = true};
  const Result<ChatRequest> read = parse_chat_request(chat_request_body(sent));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->options.model, "m");
  EXPECT_TRUE(read->options.stream);
  EXPECT_TRUE(read->options.include_usage);
  EXPECT_EQ(read->options.max_tokens, 12U);
  EXPECT_EQ(read->options.seed, ~std::uint64_t{0});
  ASSERT_EQ(read->messages.size(), 2U);
  EXPECT_EQ(read->messages[0].content, "q\"\xC3\xA9");
  EXPECT_EQ(read->messages[1].role, "assistant");
}

TEST(ParseChunk, ReadsWhatTheWriterWrote) {
  const Result<ChunkView> role = parse_chunk(role_chunk(kChat, 0));
  ASSERT_TRUE(role);
  EXPECT_TRUE(role->has_role);
  EXPECT_EQ(role->content, "");
  EXPECT_FALSE(role->finish_reason);

  for (const AnswerHead& head : {kChat, kText}) {
    const Result<ChunkView> text = parse_chunk(text_chunk(head, 0, "h\xC3\xA9\n"));
    ASSERT_TRUE(text);
    EXPECT_EQ(text->content, "h\xC3\xA9\n");
    EXPECT_FALSE(text->has_role);
    EXPECT_FALSE(text->usage_only);
    EXPECT_FALSE(text->usage);

    const Result<ChunkView> finish = parse_chunk(finish_chunk(head, 0, "length"));
    ASSERT_TRUE(finish);
    EXPECT_EQ(finish->finish_reason, "length");

    const Result<ChunkView> usage = parse_chunk(usage_chunk(head, kUsage));
    ASSERT_TRUE(usage);
    EXPECT_TRUE(usage->usage_only);
    ASSERT_TRUE(usage->usage);
    EXPECT_EQ(usage->usage->prompt_tokens, 10U);
    EXPECT_EQ(usage->usage->completion_tokens, 5U);
    EXPECT_EQ(usage->usage->cached_tokens, 8U);

    const Result<ChunkView> whole = parse_chunk(whole_answer(head, {{.text = "t", .finish_reason = "stop"}}, kUsage));
    ASSERT_TRUE(whole);
    EXPECT_EQ(whole->content, "t");
    EXPECT_EQ(whole->finish_reason, "stop");
    EXPECT_FALSE(whole->usage_only);
    ASSERT_TRUE(whole->usage);
  }
}

TEST(ParseChunk, ReadsOtherServersForms) {
  const Result<ChunkView> vllm = parse_chunk(
      R"({"choices":[{"index":0,"delta":{"content":"x","tool_calls":null},"stop_reason":null,"finish_reason":null}],)"
      R"("usage":null,"system_fingerprint":"f"})");
  ASSERT_TRUE(vllm);
  EXPECT_EQ(vllm->content, "x");
  EXPECT_FALSE(vllm->usage);
  const Result<ChunkView> no_details =
      parse_chunk(R"({"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":1,"prompt_tokens_details":null}})");
  ASSERT_TRUE(no_details);
  EXPECT_EQ(no_details->usage->prompt_tokens, 3U);
  EXPECT_EQ(no_details->usage->cached_tokens, 0U);
  const Result<ChunkView> null_content = parse_chunk(R"({"choices":[{"delta":{"role":"assistant","content":null}}]})");
  ASSERT_TRUE(null_content);
  EXPECT_TRUE(null_content->has_role);
}

TEST(ParseChunk, ReadsErrorFrames) {
  for (const char* frame :
       {R"({"error":{"message":"out of blocks","type":"t","param":null,"code":null}})", R"({"error":"out of blocks"})",
        R"({"object":"error","message":"out of blocks","code":400})",
        R"({"choices":[],"error":{"message":"out of blocks"}})"}) {
    const Result<ChunkView> view = parse_chunk(frame);
    ASSERT_TRUE(view) << frame;
    EXPECT_EQ(view->error, "out of blocks") << frame;
  }
  EXPECT_EQ(parse_chunk(R"({"error":{"code":5}})")->error, R"({"code":5})");
}

TEST(ParseChunk, ReadsTheStatusOfAnErrorAndTheFingerprintOfAnAnswer) {
  const auto status = [](std::string_view frame) { return parse_chunk(frame)->error_status; };
  EXPECT_EQ(status(R"({"error":{"message":"x","code":500}})"), 500);
  EXPECT_EQ(status(R"({"object":"error","message":"x","code":400})"), 400);
  EXPECT_EQ(status(R"({"choices":[],"error":{"message":"x","code":503}})"), 503);
  EXPECT_EQ(status(R"({"error":{"message":"x","code":"gone"}})"), 0);
  EXPECT_EQ(status(R"({"error":{"message":"x","code":7}})"), 0);
  EXPECT_EQ(status(R"({"error":"x"})"), 0);
  EXPECT_EQ(parse_chunk(R"({"choices":[],"system_fingerprint":"f"})")->system_fingerprint, "f");
  EXPECT_EQ(parse_chunk(R"({"choices":[],"system_fingerprint":null})")->system_fingerprint, "");
}

TEST(ModelList, IsReadAndWrittenEntryByEntry) {
  const auto models = parse_model_list(R"({"object":"list", "data":[ {"id":"a","x": [1, 2]}, {"id":"b\n"} ]})");
  ASSERT_TRUE(models) << models.error().message;
  EXPECT_EQ(*models, (std::vector<ModelCard>{{"a", R"({"id":"a","x":[1,2]})"}, {"b\n", R"({"id":"b\n"})"}}));
  EXPECT_EQ(model_list(*models), R"({"object":"list","data":[{"id":"a","x":[1,2]},{"id":"b\n"}]})");
  const auto adapters = parse_model_list(
      R"({"data":[{"id":"m","root":"/models/m","parent":null},{"id":"a","root":"/loras/a","parent":"m"},)"
      R"({"id":"b","root":3,"parent":[]}]})");
  ASSERT_TRUE(adapters);
  EXPECT_EQ((*adapters)[0].parent, "");
  EXPECT_EQ((*adapters)[0].root, "/models/m");
  EXPECT_EQ((*adapters)[1].parent, "m");
  EXPECT_EQ((*adapters)[1].root, "/loras/a");
  EXPECT_EQ((*adapters)[2].parent + (*adapters)[2].root, "") << "what is no text says nothing";
  const auto lengths = parse_model_list(
      R"({"data":[{"id":"a","max_model_len":4096},{"id":"b","max_model_len":null},{"id":"c","max_model_len":"x"}]})");
  ASSERT_TRUE(lengths) << lengths.error().message;
  EXPECT_EQ(lengths->at(0).max_model_len, 4'096U);
  EXPECT_EQ(lengths->at(1).max_model_len, 0U);
  EXPECT_EQ(lengths->at(2).max_model_len, 0U);
  for (const char* bad :
       {"", "[]", "{}", R"({"data":5})", R"({"data":[1]})", R"({"data":[{}]})", R"({"data":[{"id":5}]})"})
    EXPECT_FALSE(parse_model_list(bad)) << bad;
  std::string many = R"({"data":[)";
  for (std::size_t i = 0; i <= kMaxModels; ++i) many += std::string(i == 0 ? "" : ",") + R"({"id":"x"})";
  EXPECT_FALSE(parse_model_list(many + "]}"));
}

TEST(ParseChunk, RefusesNonAnswers) {
  for (const char* text :
       {"", "[DONE]", "[]", "{}", R"({"choices":{}})", R"({"choices":[1]})", R"({"choices":[{"delta":{"content":1}}]})",
        R"({"choices":[{"text":[]}]})", R"({"choices":[],"usage":{"prompt_tokens":-1}})", R"({"choices":[],"usage":4})",
        R"({"choices":[{"text":"a","finish_reason":1}]})", R"({"choices":[)"}) {
    const Result<ChunkView> view = parse_chunk(text);
    ASSERT_FALSE(view) << text;
    EXPECT_EQ(view.error().code, ErrorCode::kCorrupt) << text;
  }
}

}  // namespace
}  // namespace kvist::openai::answer_test

// Fields that load generators request in addition to the text: continuous usage, tokens, log probabilities, exact
// lengths.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <simdjson.h>

#include "kvist/text/chat.h"
#include "kvist/worker/answer.h"
#include "running_worker.h"
#include "taken_exchange.h"

namespace kvist::worker::answer_fields_test {
namespace {

using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

// Events of a stream with a choice, in order.
std::vector<std::string> chunks_of(std::string_view body) {
  std::vector<std::string> chunks;
  for (std::string& event : events_of(body)) {
    if (event.contains(R"("index":)")) chunks.push_back(std::move(event));
  }
  return chunks;
}

// All numbers of the arrays called `name` in a text, one after another.
std::vector<std::uint32_t> numbers_of(std::string_view text, std::string_view name) {
  const std::string key = fmt::format(R"("{}":[)", name);
  std::vector<std::uint32_t> numbers;
  for (std::size_t at = text.find(key); at != std::string_view::npos; at = text.find(key, at)) {
    at += key.size() - 1;
    const std::string array(text.substr(at, text.find(']', at) + 1 - at));
    simdjson::dom::parser parser;
    for (const std::uint64_t number : parser.parse(array).get_array())
      numbers.push_back(static_cast<std::uint32_t>(number));
  }
  return numbers;
}

constexpr std::string_view kContinuous =
    R"("stream":true,"max_tokens":4,"stream_options":{"include_usage":true,"continuous_usage_stats":true})";

TEST(ContinuousUsage, IsInEveryChunkOfAChat) {
  RunningWorker worker;
  const net::HttpResponse response = worker.post("/v1/chat/completions", chat_body("hello", kContinuous));
  ASSERT_EQ(response.status, 200) << response.body;
  std::vector<std::uint32_t> completion;
  const ReadStream stream = read_stream(response.body);
  for (const std::string& chunk : chunks_of(response.body)) {
    const auto view = openai::parse_chunk(chunk);
    ASSERT_TRUE(view && view->usage) << chunk;
    EXPECT_EQ(view->usage->prompt_tokens, stream.usage->prompt_tokens);
    EXPECT_FALSE(view->usage->reports_cached_tokens) << "as vLLM: the counts alone";
    completion.push_back(view->usage->completion_tokens);
  }
  EXPECT_THAT(completion, ElementsAre(0, 1, 2, 3, 4, 4));  // the role, four tokens, the reason
  EXPECT_EQ(stream.usage->completion_tokens, 4U);
  EXPECT_TRUE(stream.usage->reports_cached_tokens) << "the last chunk has it all, as ever";
}

TEST(ContinuousUsage, CountsEachChoiceOfACompletionByItself) {
  RunningWorker worker;
  const net::HttpResponse response = worker.post("/v1/completions", completion_body(R"(["abc","de"])", kContinuous));
  ASSERT_EQ(response.status, 200) << response.body;
  std::map<bool, std::uint32_t> most;  // by whether it is the second choice
  for (const std::string& chunk : chunks_of(response.body)) {
    const auto view = openai::parse_chunk(chunk);
    ASSERT_TRUE(view && view->usage) << chunk;
    const bool second = chunk.contains(R"("index":1)");
    EXPECT_EQ(view->usage->prompt_tokens, second ? 2U : 3U);
    EXPECT_GE(view->usage->completion_tokens, most[second]);
    most[second] = view->usage->completion_tokens;
  }
  EXPECT_EQ(most[false], 4U);
  EXPECT_EQ(most[true], 4U);
}

TEST(ContinuousUsage, MeansNothingWithoutIncludeUsage) {
  RunningWorker worker;
  for (const char* path : {"/v1/chat/completions", "/v1/completions"}) {
    const std::string fields = R"("stream":true,"max_tokens":3,"stream_options":{"continuous_usage_stats":true})";
    const net::HttpResponse response = worker.post(
        path, path[4] == 'c' && path[5] == 'h' ? chat_body("x", fields) : completion_body(R"("x")", fields));
    ASSERT_EQ(response.status, 200) << response.body;
    EXPECT_THAT(response.body, Not(HasSubstr(R"("usage")")));
  }
}

TEST(Lengths, AreExactWithMinTokensAndIgnoreEos) {
  RunningWorker worker;  // whose answers have some 40 tokens
  for (const char* fields : {R"("min_tokens":300,"max_tokens":300)", R"("ignore_eos":true,"max_tokens":300)"}) {
    const auto answer = openai::parse_chunk(worker.post("/v1/chat/completions", chat_body("x", fields)).body);
    ASSERT_TRUE(answer && answer->usage);
    EXPECT_EQ(answer->usage->completion_tokens, 300U) << fields;
    EXPECT_EQ(answer->finish_reason, "length");
  }
  const auto longer =
      openai::parse_chunk(worker.post("/v1/chat/completions", chat_body("x", R"("min_tokens":150)")).body);
  ASSERT_TRUE(longer && longer->usage);
  EXPECT_EQ(longer->usage->completion_tokens, 151U) << "then the end of the turn, which min_tokens held back";
  EXPECT_EQ(longer->finish_reason, "stop");
}

TEST(MadeUpLogprobs, AreTheSameStreamedAndWholeAndOnEveryWorker) {
  RunningWorker one;
  RunningWorker two;
  const std::string fields = R"("max_tokens":20,"seed":3,"logprobs":true,"top_logprobs":3)";
  const std::string whole = one.post("/v1/chat/completions", chat_body("hello", fields)).body;
  std::string begin = R"("logprobs":{"content":[)";
  const std::size_t at = whole.find(begin);
  ASSERT_NE(at, std::string::npos) << whole;
  const std::string content = whole.substr(at + begin.size(), whole.find(R"(],"refusal")") - at - begin.size());
  std::string streamed;
  for (const std::string& chunk :
       chunks_of(two.post("/v1/chat/completions", chat_body("hello", fields + R"(,"stream":true)")).body)) {
    const std::size_t from = chunk.find(begin);
    if (from == std::string::npos) continue;
    if (!streamed.empty()) streamed += ',';
    streamed += chunk.substr(from + begin.size(), chunk.find(R"(],"refusal")") - from - begin.size());
  }
  EXPECT_EQ(streamed, content);
  EXPECT_EQ(numbers_of(whole, "bytes").size(), 20U * 4) << "a byte each: the token and three beside it";
}

TEST(MadeUpLogprobs, ComeWithCompletionsToo) {
  RunningWorker worker;
  const std::string body =
      worker.post("/v1/completions", completion_body(R"("x")", R"("max_tokens":5,"logprobs":0)")).body;
  EXPECT_THAT(body, HasSubstr(R"("logprobs":{"text_offset":[0,1,2,3,4],"token_logprobs":[-)"));
}

TEST(TokenIds, OfAChatAreBesideTheChoicesAndInThem) {
  RunningWorker worker;
  const std::string fields = R"("max_tokens":6,"n":2,"seed":4,"return_token_ids":true)";
  const std::string whole = worker.post("/v1/chat/completions", chat_body("hi", fields)).body;
  const tokenizer::ByteTokenizer tokenizer;
  std::vector<std::uint32_t> prompt;
  for (const TokenId token : text::SimpleChatTemplate().render({{"user", "hi"}}, tokenizer))
    prompt.push_back(token.value());
  EXPECT_EQ(numbers_of(whole, "prompt_token_ids"), prompt) << "once, however many choices";
  const std::vector<std::uint32_t> tokens = numbers_of(whole, "token_ids");
  ASSERT_EQ(tokens.size(), 12U);
  const std::string streamed = worker.post("/v1/chat/completions", chat_body("hi", fields + R"(,"stream":true)")).body;
  EXPECT_EQ(numbers_of(streamed, "token_ids").size(), 12U);
  std::vector<std::string> first;
  for (const std::string& chunk : chunks_of(streamed))
    if (chunk.contains(R"("index":0)")) first.push_back(chunk);
  EXPECT_EQ(numbers_of(first.front(), "prompt_token_ids"), prompt) << "with the role";
  first.erase(first.begin());
  EXPECT_THAT(first, Each(Not(HasSubstr("prompt_token_ids"))));
  std::vector<std::uint32_t> of_first;
  for (const std::string& chunk : first) {
    const std::vector<std::uint32_t> more = numbers_of(chunk, "token_ids");
    of_first.insert(of_first.end(), more.begin(), more.end());
  }
  EXPECT_EQ(of_first, std::vector(tokens.begin(), tokens.begin() + 6));
}

TEST(TokenIds, OfACompletionAreInItsChoices) {
  RunningWorker worker;
  const std::string fields = R"("max_tokens":3,"temperature":0,"return_token_ids":true)";
  const std::string whole = worker.post("/v1/completions", completion_body(R"(["ab","c"])", fields)).body;
  EXPECT_THAT(numbers_of(whole, "prompt_token_ids"), ElementsAre('a', 'b', 'c'));
  const std::vector<std::uint32_t> tokens = numbers_of(whole, "token_ids");
  EXPECT_EQ(tokens.size(), 6U);
  const std::string streamed =
      worker.post("/v1/completions", completion_body(R"("ab")", fields + R"(,"stream":true)")).body;
  EXPECT_THAT(numbers_of(streamed, "prompt_token_ids"), ElementsAre('a', 'b')) << "with the first tokens";
  EXPECT_EQ(numbers_of(streamed, "token_ids"), std::vector(tokens.begin(), tokens.begin() + 3));
}

// The body of an answer of these bytes, token by token.
std::string answer_of(std::string_view bytes, bool stream, engine::FinishReason finish) {
  const tokenizer::ByteTokenizer tokenizer;
  const auto exchange = std::make_shared<Taken>();
  AnswerOptions options;
  options.head = {.id = "cmpl-1", .model = "m", .created = 7, .chat = false};
  options.stream = stream;
  Answer made(exchange, tokenizer, std::move(options), {RequestId(3)});
  made.begin();
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    engine::RequestOutput output;
    output.id = RequestId(3);
    output.tokens.push_back(TokenId(static_cast<unsigned char>(bytes[i])));
    if (i + 1 == bytes.size()) output.finish = finish;
    made.add(0, output, {});
  }
  return exchange->body;
}

// All answers begin in one step, so what repeats the prompt is written at once, however fast the client reads.
TEST(RepeatedPrompts, AreRefusedInAStreamThatNobodyCouldRead) {
  spec::WorkerSpec spec = fast_spec();
  spec.max_model_len = 16'384;
  spec.max_batch_size = 128;
  spec.kv_blocks = 140'000;
  RunningWorker worker(spec);
  const auto ask = [&](std::size_t bytes, std::string_view character, int answers, std::string_view fields) {
    std::string prompt;
    for (std::size_t i = 0; i < bytes; ++i) prompt += character;
    return worker.post("/v1/completions",
                       completion_body(fmt::format(R"("{}")", prompt),
                                       fmt::format(R"("max_tokens":1,"n":{},"stream":{})", answers, fields)));
  };
  const net::HttpResponse echo = ask(12'000, "x", 128, R"(true,"echo":true)");
  EXPECT_EQ(echo.status, 400);
  EXPECT_THAT(echo.body, HasSubstr("echo: prompts of 12002 bytes in each of 128 answers, at most 1048576 bytes are "
                                   "given in a stream; ask for fewer answers, send fewer or shorter prompts, or leave "
                                   "out \\\"stream\\\""));
  EXPECT_EQ(ask(2'000, R"(\u0001)", 128, R"(true,"echo":true)").status, 400) << "six bytes for each";
  EXPECT_EQ(ask(8'000, "x", 128, R"(true,"return_token_ids":true)").status, 400);
  EXPECT_EQ(ask(12'000, "x", 128, R"(false,"echo":true)").status, 200);
  EXPECT_EQ(worker.metric("kvist_worker_slow_clients_total"), 0);

  const net::HttpResponse fits = ask(8'000, "x", 128, R"(true,"echo":true)");
  ASSERT_EQ(fits.status, 200) << fits.body;
  const ReadStream stream = read_stream(fits.body);
  EXPECT_TRUE(stream.done_last);
  EXPECT_GE(stream.text.size(), 128U * 8'000);
}

TEST(IncompleteCharacters, AreLeftOutAtTheEndStreamedAndWhole) {
  for (const engine::FinishReason finish : {engine::FinishReason::kLength, engine::FinishReason::kStop}) {
    for (const std::string_view bytes : {"caf\xC3", "caf\xF0\x9F\x8C", "caf\xFF"}) {
      EXPECT_EQ(read_stream(answer_of(bytes, true, finish)).text, "caf");
      EXPECT_EQ(openai::parse_chunk(answer_of(bytes, false, finish))->content, "caf");
    }
  }
  const engine::FinishReason length = engine::FinishReason::kLength;
  EXPECT_EQ(read_stream(answer_of("caf\xC3!", true, length)).text, "caf\uFFFD!") << "in the midst of a text it is seen";
  EXPECT_EQ(openai::parse_chunk(answer_of("caf\xC3!", false, length))->content, "caf\uFFFD!");
}

}  // namespace
}  // namespace kvist::worker::answer_fields_test

// Where the text of an answer begins and ends: stop tokens, stop strings, leading spaces.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kvist/openai/tokenize.h"
#include "kvist/tokenizer/hugging_face_tokenizer.h"
#include "kvist/worker/answer.h"
#include "running_worker.h"
#include "taken_exchange.h"
#include "text/model_directory.h"

namespace kvist::worker::answer_text_test {
namespace {

using engine::FinishReason;

struct Read {
  std::string text;
  std::string finish;
};

// An answer of these tokens, one per step unless `at_once`, to the prompt 0.
Read answer(const tokenizer::Tokenizer& tokenizer, const std::vector<TokenId>& tokens, AnswerOptions options,
            FinishReason finish, bool at_once = false) {
  const auto exchange = std::make_shared<Taken>();
  options.head = {.id = "cmpl-1", .model = "m", .created = 7, .chat = false};
  const bool streams = options.stream;
  Answer made(exchange, tokenizer, std::move(options), {RequestId(3)});
  made.begin();
  std::uint32_t given = 0;
  for (std::span<const TokenId> rest = tokens; !rest.empty() && !made.has_ended(0);) {
    engine::RequestOutput output;
    output.id = RequestId(3);
    output.tokens.assign(rest.first(at_once ? rest.size() : 1));
    rest = rest.subspan(output.tokens.size());
    output.output_tokens = given += static_cast<std::uint32_t>(output.tokens.size());
    if (rest.empty()) output.finish = finish;
    made.add(0, output, {});
  }
  if (streams) {
    const ReadStream stream = read_stream(exchange->body);
    return {.text = stream.text, .finish = stream.finish_reason};
  }
  const auto whole = openai::parse_chunk(exchange->body).value();
  return {.text = whole.content, .finish = whole.finish_reason.value_or("")};
}

std::vector<TokenId> bytes_of(std::string_view text) {
  std::vector<TokenId> tokens;
  tokenizer::ByteTokenizer().encode(text, tokens);
  return tokens;
}

TEST(StopTokens, AreNoPartOfTheTextWhateverTheySay) {
  const tokenizer::ByteTokenizer tokenizer;
  for (const bool stream : {false, true}) {
    for (const bool at_once : {false, true}) {
      AnswerOptions options;
      options.stream = stream;
      Read read = answer(tokenizer, bytes_of("one;"), options, FinishReason::kStop, at_once);
      EXPECT_EQ(read.text, "one");
      EXPECT_EQ(read.finish, "stop");
      EXPECT_EQ(answer(tokenizer, bytes_of("one;"), options, FinishReason::kLength, at_once).text, "one;");
      options.include_stop = true;
      EXPECT_EQ(answer(tokenizer, bytes_of("one;"), options, FinishReason::kStop, at_once).text, "one;");
    }
  }
}

TEST(StopStrings, DoNotEndAnAnswerBeforeItsLeastLength) {
  const tokenizer::ByteTokenizer tokenizer;
  for (const bool at_once : {false, true}) {
    const auto with = [&](std::uint32_t min_tokens) {
      AnswerOptions options;
      options.stop = {"ab"};
      options.min_tokens = min_tokens;
      return answer(tokenizer, bytes_of("xabxabxabx"), std::move(options), FinishReason::kLength, at_once);
    };
    EXPECT_EQ(with(0).text, "x");
    EXPECT_EQ(with(2).text, "x") << "the third token completes it";
    EXPECT_EQ(with(3).text, "xabx") << "as vLLM counts";
    EXPECT_EQ(with(5).text, "xabx") << "it may begin before";
    EXPECT_EQ(with(6).text, "xabxabx");
    EXPECT_EQ(with(6).finish, "stop");
    EXPECT_EQ(with(9).text, "xabxabxabx");
    EXPECT_EQ(with(9).finish, "length");
  }
}

// The tokens of an answer with everything that is counted of them, in steps of one token or all in one.
std::string counted(std::string_view text, AnswerOptions options, FinishReason finish, bool at_once) {
  const tokenizer::ByteTokenizer tokenizer;
  const std::vector<TokenId> tokens = bytes_of(text);
  const auto exchange = std::make_shared<Taken>();
  options.head = {.id = "cmpl-1", .model = "m", .created = 7, .chat = false};
  options.include_usage = options.returns_tokens = true;
  options.prompts = {{TokenId(1)}};
  Answer made(exchange, tokenizer, std::move(options), {RequestId(3)});
  made.begin();
  for (std::size_t given = 0; given < tokens.size() && !made.has_ended(0);) {
    const std::size_t end = at_once ? tokens.size() : given + 1;
    engine::RequestOutput output;
    engine::SampledLogprobs logprobs;
    output.id = logprobs.id = RequestId(3);
    output.prompt_tokens = 1;
    for (; given < end; ++given) {
      output.tokens.push_back(tokens[given]);
      engine::TokenLogprobs& token = logprobs.tokens.emplace_back();
      token.chosen = {.token = tokens[given], .logprob = -0.5F};
    }
    output.output_tokens = static_cast<std::uint32_t>(given);
    if (given == tokens.size()) output.finish = finish;
    made.add(0, output, &logprobs);
  }
  return exchange->body;
}

// As steps with drafts give them: the model would not have been asked for the tokens behind the stop string.
TEST(StopStrings, LeaveNothingOfTheTokensBehindThem) {
  for (const FinishReason finish : {FinishReason::kLength, FinishReason::kStop}) {
    AnswerOptions options;
    options.stop = {"ab"};
    const std::string alone = counted("xxabyyab", options, finish, false);
    EXPECT_TRUE(alone.contains(R"("completion_tokens":4)")) << alone;
    EXPECT_EQ(counted("xxabyyab", options, finish, true), alone);
    EXPECT_NE(counted("xxa", options, finish, true), alone);
    options.stream = true;
    const std::string streamed = counted("xxabyyab", options, finish, true);
    EXPECT_TRUE(streamed.contains(R"("completion_tokens":4)")) << streamed;
    const std::vector<TokenId> ids = bytes_of("xxab");
    std::string list;
    for (const TokenId id : ids) list += fmt::format("{}{}", list.empty() ? "" : ",", id.value());
    EXPECT_TRUE(streamed.contains(fmt::format(R"("token_ids":[{}])", list))) << streamed;
    EXPECT_TRUE(streamed.contains(R"("token_logprobs":[-0.5,-0.5,-0.5,-0.5])")) << streamed;
  }
}

TEST(StopStrings, OfAWorkerKeepMinTokens) {
  RunningWorker worker;
  const std::string body =
      chat_body("x", R"("stop":["e","a","o","t"],"min_tokens":100,"max_tokens":300,"ignore_eos":true)");
  const auto read = openai::parse_chunk(worker.post("/v1/chat/completions", body).body);
  ASSERT_TRUE(read && read->usage);
  EXPECT_EQ(read->finish_reason, "stop");
  EXPECT_GT(read->usage->completion_tokens, 100U);
  EXPECT_LT(read->usage->completion_tokens, 150U);
}

TEST(StopStrings, AreNamedWhereTheyEndAnAnswer) {
  RunningWorker worker;
  for (const std::string_view stream : {"false", "true"}) {
    const std::string body =
        chat_body("x", fmt::format(R"("stop":["e"],"max_tokens":500,"ignore_eos":true,"stream":{})", stream));
    const std::string answer = worker.post("/v1/chat/completions", body).body;
    EXPECT_TRUE(answer.contains(R"("finish_reason":"stop","stop_reason":"e")")) << "as in vLLM: " << answer;
  }
}

// Llama 2's way, where a word has its space in front: prompt and answer together are one text.
TEST(LeadingSpaces, OfAnAnswerAreKeptBehindAPromptWithText) {
  tokenizer::SmallTokenizer small = tokenizer::SmallTokenizer::characters({"\u2581", "a", "b", "\u2581a", "\u2581b"});
  small.merges = {{"\u2581", "a"}, {"\u2581", "b"}};
  small.added = {{"<s>"}};
  const auto tokenizer = tokenizer::HuggingFaceTokenizer::parse(small.json(), {}).value();
  const std::vector<TokenId> words = {*tokenizer->token_id("\u2581b"), *tokenizer->token_id("\u2581a")};
  for (const bool stream : {false, true}) {
    AnswerOptions options;
    options.stream = stream;
    options.follows_text = {true};
    EXPECT_EQ(answer(*tokenizer, words, options, FinishReason::kLength).text, " b a");
    options.follows_text = {false};
    EXPECT_EQ(answer(*tokenizer, words, options, FinishReason::kLength).text, "b a");
  }
}

TEST(LeadingSpaces, ComeFromAWorkerAsTheModelGivesThem) {
  const text::ModelDirectory directory;
  std::vector<std::string> letters = {"\u2581"};
  for (char letter = '!'; letter <= '~'; ++letter) letters.emplace_back(1, letter);
  tokenizer::SmallTokenizer small = tokenizer::SmallTokenizer::characters(letters);
  small.added = {{"<s>"}, {"</s>"}};
  directory.write("tokenizer.json", small.json());
  directory.write("tokenizer_config.json", R"({"eos_token":"</s>","bos_token":"<s>"})");
  spec::WorkerSpec spec = fast_spec();
  spec.tokenizer = directory.path();
  RunningWorker worker(spec);
  const auto text = [&](std::string_view prompt) {
    const net::HttpResponse response =
        worker.post("/v1/completions", completion_body(prompt, R"("max_tokens":5,"temperature":0)"));
    EXPECT_EQ(response.status, 200) << response.body;
    return openai::parse_chunk(response.body)->content;
  };
  // The timed engine's answers begin with a word of their own, which such a tokenizer gives a space.
  EXPECT_TRUE(text(R"("abc")").starts_with(' '));
  EXPECT_FALSE(text(R"("<s>")").starts_with(' ')) << "nothing but a special token is before it";
  const auto echoed = [&](std::string_view prompt) {
    return openai::parse_chunk(
               worker.post("/v1/completions", completion_body(prompt, R"("max_tokens":0,"echo":true)")).body)
        ->content;
  };
  const auto listed = openai::parse_tokenize_answer(worker.post("/tokenize", R"({"prompt":"abc d"})").body).value();
  std::string ids;
  for (const TokenId token : listed.tokens) ids += fmt::format("{}{}", ids.empty() ? "[" : ",", token.value());
  EXPECT_EQ(echoed(R"("abc d")"), "abc d");
  EXPECT_EQ(echoed(ids + "]"), "abc d") << "without the space that the tokenizer has put in front";
}

}  // namespace
}  // namespace kvist::worker::answer_text_test

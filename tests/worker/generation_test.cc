#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "kvist/perfmodel/step_time_model.h"
#include "running_worker.h"

namespace kvist::worker::generation_test {
namespace {

TEST(Chat, StreamsRoleTextFinishUsageAndDone) {
  RunningWorker worker;
  const net::HttpResponse response = worker.post(
      "/v1/chat/completions", chat_body("hello", R"("stream":true,"stream_options":{"include_usage":true})"));
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.headers.find("Content-Type"), "text/event-stream; charset=utf-8");
  const ReadStream stream = read_stream(response.body);
  EXPECT_TRUE(stream.role_first);
  EXPECT_TRUE(stream.done_last);
  EXPECT_EQ(stream.finish_reason, "stop");
  ASSERT_TRUE(stream.usage);
  // The end-of-turn token is counted, and has no text.
  EXPECT_EQ(stream.usage->completion_tokens, stream.text.size() + 1);
  EXPECT_EQ(stream.text_chunks, static_cast<int>(stream.text.size()));
  EXPECT_EQ(stream.usage->cached_tokens, 0U);
}

TEST(Chat, ChunksOfOneAnswerShareTheirHead) {
  RunningWorker worker;
  const net::HttpResponse response =
      worker.post("/v1/chat/completions", chat_body("hello", R"("stream":true,"max_tokens":3)"));
  const std::vector<std::string> events = events_of(response.body);
  ASSERT_EQ(events.size(), 6U);  // role, three tokens, finish, [DONE]
  const std::string head = events[0].substr(0, events[0].find(R"("choices":[)"));
  EXPECT_TRUE(head.starts_with(R"({"id":"chatcmpl-)"));
  for (std::size_t i = 0; i + 1 < events.size(); ++i) EXPECT_TRUE(events[i].starts_with(head)) << events[i];
  EXPECT_EQ(events[4].substr(head.size()),
            R"("choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"length"}]})");
}

TEST(Chat, ComesWholeWhenNotStreamed) {
  RunningWorker worker;
  const net::HttpResponse streamed = worker.post("/v1/chat/completions", chat_body("hi", R"("stream":true,"seed":7)"));
  const net::HttpResponse whole = worker.post("/v1/chat/completions", chat_body("hi", R"("seed":7)"));
  EXPECT_EQ(whole.status, 200);
  EXPECT_EQ(whole.headers.find("Content-Type"), "application/json");
  const Result<openai::ChunkView> view = openai::parse_chunk(whole.body);
  ASSERT_TRUE(view) << whole.body;
  EXPECT_EQ(view->content, read_stream(streamed.body).text);
  EXPECT_EQ(view->finish_reason, "stop");
  ASSERT_TRUE(view->usage);
  EXPECT_EQ(view->usage->completion_tokens, view->content.size() + 1);
}

TEST(Chat, TheSecondRequestFindsThePrefixOfTheFirst) {
  RunningWorker worker;
  const std::string content(200, 'x');
  const std::string body = chat_body(content, R"("max_tokens":4)");
  const Result<openai::ChunkView> first = openai::parse_chunk(worker.post("/v1/chat/completions", body).body);
  const Result<openai::ChunkView> second = openai::parse_chunk(worker.post("/v1/chat/completions", body).body);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->usage->cached_tokens, 0U);
  const std::uint32_t prompt_tokens = second->usage->prompt_tokens;
  EXPECT_GT(prompt_tokens, 200U);
  EXPECT_EQ(second->usage->cached_tokens, (prompt_tokens - 1) / 16 * 16);
  EXPECT_EQ(worker.metric("vllm:prefix_cache_hits_total"), second->usage->cached_tokens);
  EXPECT_EQ(worker.metric("vllm:prefix_cache_queries_total"), 2.0 * prompt_tokens);
  EXPECT_EQ(worker.metric("kvist_worker_prefilled_tokens_total"), 2.0 * prompt_tokens - second->usage->cached_tokens);
}

TEST(Chat, SaltsKeepPrefixesApart) {
  RunningWorker worker;
  const std::string content(200, 'x');
  for (const char* salt : {"a", "b"}) {
    const std::string body = chat_body(content, fmt::format(R"("max_tokens":1,"cache_salt":"{}")", salt));
    const Result<openai::ChunkView> answer = openai::parse_chunk(worker.post("/v1/chat/completions", body).body);
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->usage->cached_tokens, 0U);
  }
}

TEST(Chat, WithASeedOrGreedyTheSamePromptHasTheSameAnswerOnEveryWorker) {
  RunningWorker one;
  RunningWorker other;
  static_cast<void>(other.post("/v1/chat/completions", chat_body("something before")));
  for (const std::string_view fields : {R"("temperature":0)", R"("seed":3)", R"("seed":3,"temperature":2)"}) {
    const auto text = [&](RunningWorker& worker, std::string_view content) {
      return openai::parse_chunk(worker.post("/v1/chat/completions", chat_body(content, fields)).body)->content;
    };
    EXPECT_EQ(text(one, "question"), text(other, "question")) << fields;
  }
}

TEST(Chat, WithoutASeedAnAnswerIsANewOneEachTime) {
  RunningWorker one;
  RunningWorker other;
  const auto text = [](RunningWorker& worker, const std::string& id) {
    net::Headers headers;
    if (!id.empty()) headers.add("X-Request-Id", id);
    const net::HttpResponse answer =
        worker.call("POST", "/v1/chat/completions", chat_body("question"), std::move(headers));
    return openai::parse_chunk(answer.body)->content;
  };
  EXPECT_NE(text(one, ""), text(one, ""));
  EXPECT_NE(text(one, "a"), text(one, "b"));
  EXPECT_EQ(text(one, "a"), text(other, "a")) << "where an answer goes on, its request has the same id";
  const std::string two = one.post("/v1/completions", completion_body(R"(["a","a"])", R"("max_tokens":40)")).body;
  const auto text_after = [&](std::string_view mark) { return two.substr(two.find(mark) + mark.size(), 40); };
  EXPECT_NE(text_after(R"("index":0,"text":")"), text_after(R"("index":1,"text":")")) << "equal prompts of one request";
}

TEST(Chat, WithoutALimitAnAnswerMayFillTheContext) {
  spec::WorkerSpec spec = fast_spec();
  spec.max_model_len = 64;
  RunningWorker worker(spec);
  const Result<openai::ChunkView> answer =
      openai::parse_chunk(worker.post("/v1/chat/completions", chat_body("hi", R"("ignore_eos":true)")).body);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->finish_reason, "length");
  EXPECT_EQ(answer->usage->prompt_tokens + answer->usage->completion_tokens, 64U);
}

TEST(Chat, SeveralAnswersToOnePromptDifferAndCountItOnce) {
  RunningWorker worker;
  const auto whole = [&](std::string_view fields) {
    const net::HttpResponse response = worker.post("/v1/chat/completions", chat_body("hi", fields));
    EXPECT_EQ(response.status, 200) << response.body;
    return response.body;
  };
  const auto contents = [](const std::string& body) {
    std::vector<std::string> texts;
    const std::string mark = R"("content":")";
    for (std::size_t at = body.find(mark); at != std::string::npos; at = body.find(mark, at + 1))
      texts.push_back(body.substr(at + mark.size(), body.find('"', at + mark.size()) - at - mark.size()));
    return texts;
  };
  const std::string three = whole(R"("n":3,"max_tokens":40,"seed":5)");
  const std::vector<std::string> texts = contents(three);
  ASSERT_EQ(texts.size(), 3U);
  EXPECT_NE(texts[0], texts[1]);
  EXPECT_NE(texts[1], texts[2]);
  const std::string one = whole(R"("max_tokens":40,"seed":5)");
  EXPECT_EQ(contents(one).at(0), texts[0]) << "the first is the one that would come alone";
  EXPECT_EQ(openai::parse_chunk(three)->usage->prompt_tokens, openai::parse_chunk(one)->usage->prompt_tokens);
  EXPECT_EQ(contents(whole(R"("n":3,"max_tokens":40)")).size(), 3U);
}

TEST(Completion, TakesTextAndTokensAlike) {
  RunningWorker worker;
  const auto text = [&](std::string_view prompt) {
    const net::HttpResponse response = worker.post("/v1/completions", completion_body(prompt, R"("seed":3)"));
    EXPECT_EQ(response.status, 200) << response.body;
    return openai::parse_chunk(response.body)->content;
  };
  const std::string of_text = text(R"("hi")");
  EXPECT_FALSE(of_text.empty());
  EXPECT_EQ(text("[104,105]"), of_text);
  EXPECT_EQ(text("[[104,105]]"), of_text);
}

TEST(Completion, StreamsWithoutARole) {
  RunningWorker worker;
  const net::HttpResponse response =
      worker.post("/v1/completions", completion_body(R"("hi")", R"("stream":true,"max_tokens":5)"));
  const ReadStream stream = read_stream(response.body);
  EXPECT_EQ(stream.text.size(), 5U);
  EXPECT_EQ(stream.finish_reason, "length");
  EXPECT_TRUE(stream.done_last);
  EXPECT_FALSE(stream.usage);
  EXPECT_EQ(response.body.find("\"role\""), std::string::npos);
}

TEST(Completion, AnswersSeveralPromptsInOneStream) {
  RunningWorker worker;
  const net::HttpResponse response = worker.post(
      "/v1/completions", completion_body(R"(["one","two","three"])",
                                         R"("stream":true,"max_tokens":4,"stream_options":{"include_usage":true})"));
  int finished = 0;
  for (const std::string& event : events_of(response.body)) {
    for (const char* index : {R"("index":0,)", R"("index":1,)", R"("index":2,)"}) {
      if (event.find(index) != std::string::npos && event.find("\"length\"") != std::string::npos) ++finished;
    }
  }
  EXPECT_EQ(finished, 3);
  const ReadStream stream = read_stream(response.body);
  EXPECT_TRUE(stream.done_last);
  EXPECT_EQ(stream.usage->completion_tokens, 12U);
  EXPECT_EQ(stream.usage->prompt_tokens, 3U + 3U + 5U);
}

TEST(Completion, AnswersSeveralPromptsWhole) {
  RunningWorker worker;
  const net::HttpResponse response =
      worker.post("/v1/completions", completion_body(R"([[97],[98]])", R"("max_tokens":4,"seed":3)"));
  EXPECT_EQ(response.status, 200);
  EXPECT_THAT(response.body, testing::ContainsRegex(
                                 R"("choices":\[\{"index":0,"text":"....","logprobs":null,"finish_reason":"length"\},)"
                                 R"(\{"index":1,"text":"....","logprobs":null,"finish_reason":"length"\}\])"));
  EXPECT_THAT(response.body, testing::HasSubstr(R"("completion_tokens":8,)"));
}

TEST(Speculation, TokensOfAStepComeInOneChunkAndAreAllCounted) {
  spec::WorkerSpec spec = fast_spec();
  spec.speculation = {.enabled = true, .draft_tokens = 3, .acceptance = {1.0, 1.0, 0.5}};
  RunningWorker worker(spec);
  RunningWorker plain;
  const std::string body = chat_body("hello", R"("stream":true,"max_tokens":30,"ignore_eos":true,"seed":3,)"
                                              R"("stream_options":{"include_usage":true})");
  const ReadStream stream = read_stream(worker.post("/v1/chat/completions", body).body);
  const ReadStream one_by_one = read_stream(plain.post("/v1/chat/completions", body).body);
  EXPECT_EQ(stream.text, one_by_one.text);
  EXPECT_EQ(stream.text.size(), 30U);
  EXPECT_EQ(stream.usage->completion_tokens, 30U);
  EXPECT_EQ(stream.finish_reason, "length");
  EXPECT_EQ(one_by_one.text_chunks, 30);
  // One token from the prompt, then three or four a step.
  EXPECT_GE(stream.text_chunks, 1 + 8);
  EXPECT_LE(stream.text_chunks, 1 + 10);
  EXPECT_EQ(worker.metric("vllm:generation_tokens_total"), 30);
  EXPECT_EQ(worker.metric("vllm:spec_decode_num_drafts_total"), stream.text_chunks - 1);
  // Each draft brings one token beside those accepted.
  EXPECT_EQ(worker.metric("vllm:spec_decode_num_accepted_tokens_total"), 30 - stream.text_chunks);
  EXPECT_GT(worker.metric("vllm:spec_decode_num_draft_tokens_total"),
            worker.metric("vllm:spec_decode_num_accepted_tokens_total"));
  EXPECT_EQ(plain.metric("vllm:spec_decode_num_draft_tokens_total"), -1);  // nothing to report
}

TEST(Speculation, AnAnswerThatEndsWithinARunIsCut) {
  spec::WorkerSpec spec = fast_spec();
  spec.speculation = {.enabled = true, .draft_tokens = 7, .acceptance = {1.0}};
  RunningWorker worker(spec);
  RunningWorker plain;
  for (const char* question : {"one", "two", "three", "four"}) {
    const std::string body = chat_body(question, R"("seed":3)");
    const auto drafted = openai::parse_chunk(worker.post("/v1/chat/completions", body).body);
    const auto expected = openai::parse_chunk(plain.post("/v1/chat/completions", body).body);
    ASSERT_TRUE(drafted && expected);
    EXPECT_EQ(drafted->content, expected->content);
    EXPECT_EQ(drafted->usage->completion_tokens, expected->usage->completion_tokens);
    EXPECT_EQ(drafted->finish_reason, "stop");
  }
}

TEST(Generation, AWorkerWithAProfileReportsWhatTheProfileDecides) {
  spec::WorkerSpec spec = fast_spec();
  spec.profile = spec::ProfileSpec();
  spec.kv_blocks = 1;
  spec.open.kv_blocks = true;
  const spec::WorkerSpec resolved = perfmodel::resolve(spec).value();
  RunningWorker worker(spec);
  EXPECT_THAT(worker.get("/metrics").body,
              testing::HasSubstr(fmt::format("num_gpu_blocks=\"{}\"", resolved.kv_blocks)));
  EXPECT_GT(resolved.kv_blocks, 10'000U);
  const auto answer = openai::parse_chunk(worker.post("/v1/chat/completions", chat_body("hi")).body);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->finish_reason, "stop");
}

TEST(Generation, MoreRequestsThanSlotsAllComeThrough) {
  RunningWorker worker;
  std::vector<std::thread> clients;
  std::atomic<int> good{0};
  for (int i = 0; i < 12; ++i) {
    clients.emplace_back([&worker, &good, i] {
      const std::string body = chat_body(fmt::format("question {}", i), R"("stream":true)");
      const ReadStream stream = read_stream(worker.post("/v1/chat/completions", body).body);
      if (stream.done_last && stream.finish_reason == "stop") ++good;
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(good, 12);
  EXPECT_EQ(worker.metric("vllm:request_success_total"), 12);
  EXPECT_EQ(worker.metric("vllm:num_requests_running"), 0);
  EXPECT_EQ(worker.metric("vllm:num_requests_waiting"), 0);
}

}  // namespace
}  // namespace kvist::worker::generation_test

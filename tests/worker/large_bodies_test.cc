// Large bodies are read beside the loop: nothing that a client sends stops the streams under way.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kvist/engine/timed/timed_engine.h"
#include "kvist/net/zmq_publisher.h"
#include "kvist/openai/tokenize.h"
#include "kvist/perfmodel/step_time_model.h"
#include "kvist/text/chat.h"
#include "kvist/tokenizer/tokenizer.h"
#include "kvist/worker/http_api.h"
#include "net/loop_thread.h"
#include "running_worker.h"

namespace kvist::worker::large_bodies_test {
namespace {

constexpr std::size_t kLong = HttpApi::kReadOnLoopBytes;

/// The byte tokenizer, in whose encode() a long text waits until it is let go.
class HeldTokenizer final : public tokenizer::Tokenizer {
 public:
  void encode(std::string_view text, std::vector<TokenId>& out) const override {
    if (text.size() >= kLong) {
      thread = std::this_thread::get_id();
      ++held;
      go_.wait();
    }
    bytes_.encode(text, out);
  }
  void encode_prompt(const tokenizer::RenderedPrompt& prompt, std::vector<TokenId>& out) const override {
    encode(prompt.text, out);
  }
  void cut_places(const tokenizer::RenderedPrompt& prompt, std::vector<std::size_t>& out) const override {
    bytes_.cut_places(prompt, out);
  }
  [[nodiscard]] bool marks_matter(const tokenizer::RenderedPrompt& prompt) const override {
    return bytes_.marks_matter(prompt);
  }
  [[nodiscard]] Frame completion_frame() const override { return bytes_.completion_frame(); }
  [[nodiscard]] TokenId special(tokenizer::SpecialToken token) const override { return bytes_.special(token); }
  [[nodiscard]] std::span<const TokenId> end_tokens() const override { return bytes_.end_tokens(); }
  [[nodiscard]] bool is_special(TokenId token) const override { return bytes_.is_special(token); }
  void decode(TokenId token, std::string& out) const override { bytes_.decode(token, out); }
  bool decode_first(TokenId token, std::string& out) const override { return bytes_.decode_first(token, out); }
  [[nodiscard]] std::optional<TokenId> token_id(std::string_view spelling) const override {
    return bytes_.token_id(spelling);
  }
  [[nodiscard]] std::string_view spelling(TokenId token) const override { return bytes_.spelling(token); }
  [[nodiscard]] std::uint32_t vocabulary_size() const override { return bytes_.vocabulary_size(); }

  void let_go() { released_.set_value(); }

  mutable std::atomic<int> held = 0;
  mutable std::atomic<std::thread::id> thread;

 private:
  tokenizer::ByteTokenizer bytes_;
  std::promise<void> released_;
  std::shared_future<void> go_ = released_.get_future().share();
};

/// An answer that the test keeps, and whose client may leave.
class Kept final : public net::HttpExchange {
 public:
  void respond(net::HttpResponse response) override { answer = std::move(response); }
  void begin_stream(int /*status*/, net::Headers /*headers*/) override {}
  void write(std::string_view /*data*/) override {}
  void end_stream() override {}
  void abort() override {}
  [[nodiscard]] std::size_t unsent_bytes() const override { return 0; }
  void on_drained(std::size_t /*low_water*/, std::function<void()> /*handler*/) override {}
  void on_client_gone(std::function<void()> handler) override { on_gone_ = std::move(handler); }
  [[nodiscard]] bool client_gone() const override { return gone_; }
  void leave() {
    gone_ = true;
    if (const auto handler = std::exchange(on_gone_, nullptr)) handler();
  }

  std::optional<net::HttpResponse> answer;

 private:
  bool gone_ = false;
  std::function<void()> on_gone_;
};

class LargeBodies : public ::testing::Test {
 protected:
  LargeBodies() {
    thread_.run([this] {
      spec::WorkerSpec wanted = fast_spec();
      wanted.max_model_len = 200'000;
      wanted.kv_blocks = 20'000;
      wanted.max_num_tokens = 100'000;
      spec_ = perfmodel::resolve(wanted).value();
      auto publisher = net::ZmqPublisher::bind({.endpoint = "tcp://127.0.0.1:0", .replay_endpoint = "", .topic = ""});
      runner_ = std::make_unique<EngineRunner>(thread_.loop(), engine::make_timed_engine(spec_, tokenizer_).value(),
                                               std::move(publisher).value(), spec_.max_model_len);
      generations_ = std::make_shared<Generations>(spec_, tokenizer_, *runner_);
      runner_->set_output_handler([this](const engine::RequestOutput& output, EngineRunner::Logprobs logprobs) {
        generations_->on_output(output, logprobs);
      });
      reader_ = std::make_unique<RequestReader>(spec_, tokenizer_, template_);
      api_ = std::make_unique<HttpApi>(thread_.loop(), spec_, *reader_, *runner_, *generations_);
      auto server = net::HttpServer::listen(thread_.loop(), {}, [this](net::HttpRequest request, auto exchange) {
        api_->handle(std::move(request), std::move(exchange));
      });
      server_ = std::move(server).value();
    });
  }
  ~LargeBodies() override {
    let_go();
    thread_.run([this] {
      kept_.clear();
      server_.reset();
      api_.reset();
      generations_.reset();
      runner_.reset();
    });
    thread_.stop();
  }

  void let_go() {
    if (!std::exchange(let_go_, true)) tokenizer_.let_go();
  }
  [[nodiscard]] net::HttpResponse post(const std::string& path, std::string body) {
    const std::string url = fmt::format("http://127.0.0.1:{}{}", server_->port(), path);
    return net::fetch_blocking("POST", url, std::move(body), std::chrono::seconds(100)).value();
  }
  /// Asks from within the loop, without a connection.
  std::shared_ptr<Kept> ask(const std::string& path, std::string body) {
    return thread_.run([&] {
      kept_.push_back(std::make_shared<Kept>());
      api_->handle({.method = "POST", .target = path, .headers = {}, .body = std::move(body)}, kept_.back());
      return kept_.back();
    });
  }
  [[nodiscard]] bool wait_held() {
    return thread_.wait([this] { return tokenizer_.held > 0; });
  }
  [[nodiscard]] static std::string large_chat(std::string_view fields = "") {
    return chat_body(std::string(kLong, 'x'), fields);
  }

  HeldTokenizer tokenizer_;
  text::SimpleChatTemplate template_;
  spec::WorkerSpec spec_;
  net::LoopThread thread_;
  std::unique_ptr<EngineRunner> runner_;
  std::shared_ptr<Generations> generations_;
  std::unique_ptr<RequestReader> reader_;
  std::unique_ptr<HttpApi> api_;
  std::unique_ptr<net::HttpServer> server_;
  std::vector<std::shared_ptr<Kept>> kept_;
  bool let_go_ = false;
};

TEST_F(LargeBodies, StreamsGoOnWhileOneIsRead) {
  const std::string text(kLong, 'x');
  const std::vector<std::pair<std::string, std::string>> requests = {
      {"/tokenize", fmt::format(R"({{"prompt":"{}"}})", text)},
      {"/v1/completions", completion_body('"' + text + '"', R"("max_tokens":2)")},
      {"/v1/chat/completions", large_chat(R"("max_tokens":2)")},
  };
  std::vector<std::future<net::HttpResponse>> large;
  for (const auto& [path, body] : requests)
    large.push_back(std::async(std::launch::async, [this, path, body] { return post(path, body); }));
  ASSERT_TRUE(wait_held());
  // Requests that came later are read, and answered from their first chunk to their last.
  const ReadStream stream = read_stream(post("/v1/chat/completions", chat_body("hi", R"("stream":true)")).body);
  EXPECT_TRUE(stream.done_last);
  EXPECT_GT(stream.text_chunks, 5);
  EXPECT_EQ(post("/tokenize", R"({"prompt":"abc"})").status, 200);
  EXPECT_EQ(tokenizer_.held, 1) << "one thread reads them";
  EXPECT_NE(tokenizer_.thread.load(), thread_.run([] { return std::this_thread::get_id(); }));
  let_go();
  for (auto& answer : large) EXPECT_EQ(answer.get().status, 200);
  EXPECT_EQ(tokenizer_.held, 3);
}

TEST_F(LargeBodies, AreAnsweredLikeOthers) {
  let_go();
  const net::HttpResponse listed = post("/tokenize", fmt::format(R"({{"prompt":"{}"}})", std::string(3 * kLong, 'x')));
  ASSERT_EQ(listed.status, 200) << listed.body;
  EXPECT_EQ(openai::parse_tokenize_answer(listed.body)->tokens.size(), 3 * kLong);
  const net::HttpResponse chat = post("/v1/chat/completions", large_chat(R"("max_tokens":2)"));
  ASSERT_EQ(chat.status, 200) << chat.body;
  EXPECT_GT(openai::parse_chunk(chat.body)->usage->prompt_tokens, kLong);
  const net::HttpResponse too_long = post("/v1/completions", completion_body('"' + std::string(200'000, 'x') + '"'));
  EXPECT_EQ(too_long.status, 400);
  EXPECT_TRUE(too_long.body.contains("context_length_exceeded")) << too_long.body;
  const net::HttpResponse malformed = post("/v1/chat/completions", large_chat().substr(1));
  EXPECT_EQ(malformed.status, 400) << malformed.body;
  EXPECT_EQ(post("/tokenize", fmt::format(R"({{"model":"another","prompt":"{}"}})", std::string(kLong, 'x'))).status,
            404);
}

// A small body must not have an answer made that takes a long time to write.
TEST_F(LargeBodies, TheListsOfTokensAndTheTextsAreBounded) {
  let_go();
  const std::string text(RequestReader::kMostListedTokens + 1, 'x');
  const net::HttpResponse listed = post("/tokenize", fmt::format(R"({{"prompt":"{}"}})", text));
  EXPECT_EQ(listed.status, 400);
  EXPECT_TRUE(listed.body.contains("has 1048577 tokens, at most 1048576 are listed")) << listed.body;
  EXPECT_EQ(post("/tokenize", fmt::format(R"({{"prompt":"{}"}})", text.substr(1))).status, 200);
}

TEST_F(LargeBodies, TooManyThatWaitAreRefused) {
  std::vector<std::shared_ptr<Kept>> asked;
  asked.push_back(ask("/v1/chat/completions", large_chat()));
  ASSERT_TRUE(wait_held());
  constexpr int kMost = 256;
  for (int i = 0; i < kMost + 2; ++i) asked.push_back(ask("/v1/chat/completions", large_chat()));
  thread_.run([&] {
    for (int i = 0; i <= kMost; ++i) EXPECT_FALSE(asked[static_cast<std::size_t>(i)]->answer) << i;
    for (std::size_t i = kMost + 1; i < asked.size(); ++i) {
      ASSERT_TRUE(asked[i]->answer);
      EXPECT_EQ(asked[i]->answer->status, 503);
      EXPECT_TRUE(asked[i]->answer->body.contains("too many large requests wait to be read"));
      asked[i]->leave();
    }
  });
  const std::string page = thread_.run([&] {
    const auto metrics = std::make_shared<Kept>();
    api_->handle({.method = "GET", .target = "/metrics", .headers = {}, .body = {}}, metrics);
    return metrics->answer->body;
  });
  EXPECT_TRUE(page.contains("kvist_worker_large_bodies_waiting{model_name=\"test-model\",engine=\"0\"} 256")) << page;
  EXPECT_TRUE(page.contains("kvist_worker_large_bodies_refused_total{model_name=\"test-model\",engine=\"0\"} 2"));
  thread_.run([&] {
    for (const auto& each : asked) each->leave();
  });
}

TEST_F(LargeBodies, OfAClientThatHasLeftIsNotRead) {
  (void)ask("/v1/chat/completions", large_chat());
  ASSERT_TRUE(wait_held());
  const auto leaving = ask("/v1/chat/completions", large_chat());
  thread_.run([&] { leaving->leave(); });
  const auto last = ask("/tokenize", fmt::format(R"({{"prompt":"{}"}})", std::string(kLong, 'x')));
  let_go();
  ASSERT_TRUE(thread_.wait([&] { return last->answer.has_value(); }));
  EXPECT_EQ(tokenizer_.held, 2);
  EXPECT_FALSE(thread_.run([&] { return leaving->answer.has_value(); }));
}

// Who came before the end began is answered.
TEST_F(LargeBodies, OneThatIsReadIsUnderWay) {
  const auto asked = ask("/v1/chat/completions", large_chat(R"("max_tokens":2)"));
  ASSERT_TRUE(wait_held());
  bool idle = false;
  thread_.run([&] {
    api_->refuse_new();
    generations_->on_idle([&] { idle = true; });
  });
  EXPECT_FALSE(thread_.run([&] { return idle; }));
  EXPECT_EQ(post("/v1/chat/completions", chat_body("hi")).status, 503);
  let_go();
  ASSERT_TRUE(thread_.wait([&] { return idle; }));
  EXPECT_EQ(thread_.run([&] { return asked->answer->status; }), 200);
}

TEST_F(LargeBodies, OneThatIsReadWhenTheTimeIsOverIsNotBegun) {
  const auto asked = ask("/v1/chat/completions", large_chat(R"("ignore_eos":true)"));
  ASSERT_TRUE(wait_held());
  bool idle = false;
  thread_.run([&] {
    api_->refuse_new();
    generations_->on_idle([&] { idle = true; });
    generations_->end_all({ErrorCode::kUnavailable, "the worker is shutting down"});
  });
  let_go();
  ASSERT_TRUE(thread_.wait([&] { return idle; }));
  ASSERT_TRUE(thread_.run([&] { return asked->answer.has_value(); }));
  EXPECT_EQ(thread_.run([&] { return asked->answer->status; }), 503);
}

}  // namespace
}  // namespace kvist::worker::large_bodies_test

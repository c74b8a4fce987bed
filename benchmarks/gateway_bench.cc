// bench: gateway text net
// The gateway's overhead per request: the same chat of about 4,000 tokens directly to a worker and through the gateway,
// on the thread that routes and on another one, which has to ask it.
// The relay's cost per token of a stream, with notes of the tokens and without.
// The cost of reading a text of 100 kB that grows from request to request, with a tokenizer like Llama 3's.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "../tests/net/loop_thread.h"
#include "kvist/base/check.h"
#include "kvist/base/json_writer.h"
#include "kvist/gateway/answer_relay.h"
#include "kvist/gateway/prompt_reader.h"
#include "kvist/gateway/service.h"
#include "kvist/net/event_loop.h"
#include "kvist/net/http_client.h"
#include "kvist/net/http_server.h"
#include "kvist/text/prose.h"
#include "kvist/tokenizer/bpe_trainer.h"
#include "kvist/tokenizer/hugging_face_tokenizer.h"

namespace {

using namespace kvist;

constexpr const char* kAnswer =
    R"({"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":)"
    R"({"role":"assistant","content":"yes"},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":4000,)"
    R"("completion_tokens":1,"total_tokens":4001,"prompt_tokens_details":{"cached_tokens":0}}})";

/// With more threads than these the gateway's routing has one of its own.
constexpr std::uint32_t kRoutingOnItsOwn = 5;

/// A worker that answers at once, a gateway in front of it, and a client, each on its own loop.
class Path {
 public:
  /// The gateway has `threads` threads.
  explicit Path(std::uint32_t threads) {
    worker_loop_.run([&] {
      auto server = net::HttpServer::listen(worker_loop_.loop(), {}, [](net::HttpRequest request, auto exchange) {
        net::HttpResponse response{.status = 200, .headers = {}, .body = request.method == "POST" ? kAnswer : ""};
        response.headers.add("Content-Type", "application/json");
        exchange->respond(std::move(response));
      });
      KVIST_CHECK(server.has_value(), "listen");
      worker_ = std::move(*server);
    });
    spec::GatewaySpec spec;
    spec.model = "m";
    spec.mode = spec::RoutingMode::kKv;
    spec.threads = threads;
    spec.workers.push_back({.name = "w", .url = worker_url(), .kv_events = "", .kv_replay = ""});
    gateway_loop_.run([&] {
      auto service = gateway::Service::create(gateway_loop_.loop(), spec);
      KVIST_CHECK(service.has_value(), "gateway");
      gateway_ = std::move(*service);
    });
    client_loop_.run(
        [&] { client_ = std::make_unique<net::HttpClient>(client_loop_.loop(), net::HttpClientOptions{}); });
    while (post(gateway_url()) != 200)
      std::this_thread::sleep_for(std::chrono::milliseconds(20));  // first health check
  }
  ~Path() {
    client_loop_.run([&] { client_.reset(); });
    gateway_loop_.run([&] { gateway_.reset(); });
    worker_loop_.run([&] { worker_.reset(); });
  }
  Path(const Path&) = delete;
  Path& operator=(const Path&) = delete;

  [[nodiscard]] std::string worker_url() const { return "http://127.0.0.1:" + std::to_string(worker_->port()); }
  [[nodiscard]] std::string gateway_url() const { return "http://127.0.0.1:" + std::to_string(gateway_->port()); }

  /// Sends one chat and returns the status of its answer.
  int post(const std::string& url) {
    std::promise<int> status;
    std::unique_ptr<net::HttpCall> call;
    client_loop_.loop().post([&] {
      net::HttpRequest request{.method = "POST", .target = "/v1/chat/completions", .headers = {}, .body = body_};
      call = client_->fetch(url, std::move(request), std::chrono::seconds(10), [&](Result<net::HttpResponse> response) {
        status.set_value(response ? response->status : 0);
      });
    });
    const int result = status.get_future().get();
    client_loop_.run([&] { call.reset(); });
    return result;
  }

 private:
  std::string body_ = R"({"model":"m","messages":[{"role":"user","content":")" + std::string(4000, 'x') + "\"}]}";
  net::LoopThread worker_loop_;
  net::LoopThread gateway_loop_;
  net::LoopThread client_loop_;
  std::unique_ptr<net::HttpServer> worker_;
  std::unique_ptr<gateway::Service> gateway_;
  std::unique_ptr<net::HttpClient> client_;
};

/// 0 threads: straight to the worker.
void chat(benchmark::State& state, std::uint32_t threads) {
  Path path(threads == 0 ? 1 : threads);
  const std::string url = threads == 0 ? path.worker_url() : path.gateway_url();
  for ([[maybe_unused]] auto _ : state) KVIST_CHECK(path.post(url) == 200, "a chat failed");
}
/// Each request's text is the previous one and 1 kB more. Without a cache all of it is tokenized again.
void read_completion(benchmark::State& state, std::size_t cache_bytes) {
  constexpr std::size_t kBegin = 100'000;
  constexpr std::size_t kMore = 1'000;
  constexpr std::size_t kRequests = 50;
  auto json = tokenizer::train_byte_level_bpe(
      text::prose(1, 200'000), {.vocabulary_size = 1'500, .special_tokens = {"<s>"}, .begin_of_text = "<s>"});
  KVIST_CHECK(json.has_value(), json.error().message);
  auto tokenizer = tokenizer::HuggingFaceTokenizer::parse(*json);
  KVIST_CHECK(tokenizer.has_value(), tokenizer.error().message);
  auto model = std::make_shared<text::ModelText>();
  model->tokenizer = *std::move(tokenizer);
  const gateway::PromptReader reader("m", 16, std::move(model), cache_bytes);
  const std::string text = text::prose(2, kBegin + kRequests * kMore);
  std::vector<std::string> bodies;
  for (std::size_t i = 0; i < kRequests; ++i) {
    std::string body = R"({"model":"m","prompt":)";
    append_json_string(body, std::string_view(text).substr(0, kBegin + i * kMore));
    bodies.push_back(body + "}");
  }
  std::size_t next = 0;
  for ([[maybe_unused]] auto _ : state) {
    const auto read = reader.read(gateway::Api::kCompletions, bodies[next++ % kRequests]);
    KVIST_CHECK(read.has_value(), "a text was refused");
    benchmark::DoNotOptimize(read->profile.prompt_tokens);
  }
}
BENCHMARK_CAPTURE(read_completion, anew, 0)->Name("gateway/read_100_kB_completion_anew");
BENCHMARK_CAPTURE(read_completion, cached, gateway::PromptReader::kCacheBytes)
    ->Name("gateway/read_100_kB_completion_that_goes_on");

/// One token of a stream, from the bytes that were read to those that are sent on; noted: of a stream that another
/// worker can go on with.
void relay_token(benchmark::State& state, bool noted) {
  const std::string event =
      R"(data: {"id":"chatcmpl-5f1c2d","object":"chat.completion.chunk","created":1764000000,"model":"m","choices":)"
      R"([{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null}]})"
      "\n\n";
  const std::string read = (noted ? ":1,10234\n" : "") + event;
  constexpr std::size_t kTokens = 1'000;
  std::string out;
  for ([[maybe_unused]] auto _ : state) {
    gateway::TokenLog log(kTokens + 1);
    gateway::AnswerRelay relay(true);
    if (noted) relay.expect_notes(log);
    KVIST_CHECK(relay.feed(read, out).has_value(), "the first token was not read");
    for (std::size_t i = 0; i < kTokens; ++i) KVIST_CHECK(relay.take_token(read) == event, "a token was not taken");
    out.clear();
  }
  state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations() * kTokens));
}
BENCHMARK_CAPTURE(relay_token, plain, false)->Name("gateway/relay_1000_tokens");
BENCHMARK_CAPTURE(relay_token, noted, true)->Name("gateway/relay_1000_noted_tokens");

BENCHMARK_CAPTURE(chat, direct, 0)->Name("gateway/chat_straight_to_the_worker")->UseRealTime();
BENCHMARK_CAPTURE(chat, through, 1)->Name("gateway/chat_through_the_gateway")->UseRealTime();
BENCHMARK_CAPTURE(chat, another_thread, kRoutingOnItsOwn)->Name("gateway/chat_through_another_thread")->UseRealTime();

}  // namespace

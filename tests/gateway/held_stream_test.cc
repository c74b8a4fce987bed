// Streams that wait for a worker, and are kept alive meanwhile.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fake_worker.h"
#include "kvist/gateway/proxy.h"
#include "running_gateway.h"

namespace kvist::gateway::held_stream_test {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr std::string_view kComment = ": keep-alive\n\n";

/// Routing that holds every request until the test lets it go.
class HoldingChannel final : public RoutingChannel {
 public:
  [[nodiscard]] bool has_room() const override { return true; }
  void start(dispatch::RequestProfile /*profile*/, Left /*left*/, Started then) override { held.push_back(then); }
  void on_left(const Left& /*left*/) override { ++left; }
  void reroute(dispatch::DispatchHandle /*request*/, const dispatch::LifeActions& /*actions*/, Rerouted then) override {
    then(std::nullopt);
  }
  void on_trouble(dispatch::DispatchHandle /*request*/, const dispatch::LifeActions& /*actions*/) override {}
  void on_first_token(routing::RequestHandle /*attempt*/, TimePoint /*at*/) override {}
  void on_progress(routing::RequestHandle /*attempt*/, std::uint64_t /*tokens*/, TimePoint /*at*/) override {}
  void on_whole_answer(routing::RequestHandle /*attempt*/, const routing::WholeAnswer& /*answer*/) override {}
  void on_usage(routing::RequestHandle /*attempt*/, std::uint64_t /*prompt*/, std::uint64_t /*cached*/) override {}
  void on_reading(dispatch::DispatchHandle /*request*/, bool /*reads*/) override {}
  void finish(dispatch::DispatchHandle /*request*/, dispatch::Outcome /*outcome*/) override {}
  void doubt(WorkerId /*worker*/) override {}

  std::vector<Started> held;
  int left = 0;
};

/// Keeps what a client would get.
class KeepingExchange final : public net::HttpExchange {
 public:
  void respond(net::HttpResponse response) override {
    whole = std::move(response);
    ended = true;
  }
  void begin_stream(int status, net::Headers fields) override {
    ++heads;
    head_status = status;
    headers = std::move(fields);
  }
  void write(std::string_view data) override { text += data; }
  void end_stream() override { ended = true; }
  void abort() override { aborted = ended = true; }
  [[nodiscard]] std::size_t unsent_bytes() const override { return 0; }
  void on_drained(std::size_t /*low_water*/, std::function<void()> /*handler*/) override { ++drains_watched; }
  void on_client_gone(std::function<void()> handler) override { leave = std::move(handler); }
  [[nodiscard]] bool client_gone() const override { return false; }

  /// Without the comments.
  [[nodiscard]] std::string events() const {
    std::string rest = text;
    for (std::size_t at = 0; (at = rest.find(kComment)) != std::string::npos;) rest.erase(at, kComment.size());
    return rest;
  }

  std::optional<net::HttpResponse> whole;
  int heads = 0;
  int head_status = 0;
  int drains_watched = 0;
  net::Headers headers;
  std::string text;
  bool ended = false;
  bool aborted = false;
  std::function<void()> leave;
};

class HeldStreamTest : public ::testing::Test {
 protected:
  std::shared_ptr<KeepingExchange> ask(const std::string& fields) {
    auto exchange = std::make_shared<KeepingExchange>();
    net::HttpRequest request{
        .method = "POST", .target = "/v1/chat/completions", .headers = {}, .body = chat_body("Hello", fields)};
    request.headers.add("X-Request-Id", "mine");
    proxy_.handle(Api::kChat, std::move(request), exchange);
    return exchange;
  }
  /// Runs the loop until the condition holds, once in a test, and then `work`.
  void run_until(
      const std::function<bool()>& condition, const std::function<void()>& work = [] {},
      const std::function<bool()>& end = [] { return true; }) {
    const TimePoint give_up = net::now() + std::chrono::seconds(100);
    bool worked = false;
    net::Timer timer(loop_);
    const std::function<void()> look = [&] {
      if (!worked && condition()) {
        worked = true;
        work();
      }
      if ((worked && end()) || net::now() > give_up) return loop_.stop();
      timer.arm(net::now() + std::chrono::milliseconds(2), look);
    };
    loop_.post(look);
    loop_.run();
    EXPECT_TRUE(worked && end());
  }

  FakeWorker worker_{"a"};
  net::EventLoop loop_;
  net::HttpClient client_{loop_, {}};
  HoldingChannel channel_;
  PromptReader reader_{"m", kBlockSize};
  Proxy proxy_{
      loop_,   {.upstream_timeout = std::chrono::seconds(100), .stream_keepalive = std::chrono::milliseconds(40)},
      client_, channel_,
      reader_, {worker_.upstream()}};
};

TEST_F(HeldStreamTest, CommentsComeWhileARequestIsHeldAndThenItsAnswer) {
  const auto stream = ask(R"("stream":true)");
  const auto whole = ask(R"("stream":false)");
  run_until([&] { return stream->text.size() >= 2 * kComment.size(); },
            [&] {
              EXPECT_EQ(stream->head_status, 200);
              EXPECT_THAT(stream->headers.find("Content-Type").value_or(""), StartsWith("text/event-stream"));
              EXPECT_EQ(stream->headers.find("X-Request-Id"), "mine");
              EXPECT_FALSE(stream->headers.find("x-kvist-worker"));
              EXPECT_EQ(whole->heads, 0) << "whole answers get none";
              for (const auto& then : channel_.held) then(dispatch::Ticket{.handle = {1, 1}, .decision = {}});
            },
            [&] { return stream->ended && whole->ended; });
  EXPECT_EQ(stream->heads, 1);
  EXPECT_EQ(stream->drains_watched, 1) << "so that a slow client slows the worker";
  EXPECT_THAT(stream->events(), StartsWith(std::string(kRoleEvent)));
  EXPECT_TRUE(stream->events().ends_with(kDoneEvent));
  EXPECT_EQ(whole->text.find(kComment), std::string::npos);
  EXPECT_EQ(proxy_.report().under_way, 0U);
  EXPECT_GE(proxy_.report().counters.keepalives, 2U);
  EXPECT_EQ(proxy_.report().counters.late_errors, 0U);
}

TEST_F(HeldStreamTest, ARefusalBehindACommentIsAnEvent) {
  const auto stream = ask(R"("stream":true)");
  run_until([&] { return !stream->text.empty(); },
            [&] {
              const Error error{ErrorCode::kUnavailable, "no room"};
              channel_.held.at(0)(std::unexpected(dispatch::Refusal(error, dispatch::Outcome::kRejected)));
            });
  EXPECT_TRUE(stream->ended);
  EXPECT_FALSE(stream->aborted);
  EXPECT_FALSE(stream->whole);
  EXPECT_THAT(stream->events(), StartsWith(R"(data: {"error":{"message":"no room")"));
  EXPECT_THAT(stream->events(), ::testing::Not(HasSubstr("[DONE]")));
  EXPECT_EQ(proxy_.report().counters.late_errors, 1U);
  EXPECT_EQ(proxy_.report().refused.at(503), 1U);
  EXPECT_EQ(proxy_.report().under_way, 0U);
}

// The status is lost, so the event has to say what it was, whatever the worker or a proxy before it answered with.
TEST_F(HeldStreamTest, AnyErrorBehindACommentIsAnErrorObject) {
  struct Case {
    int status;
    std::string body;
    std::string event;
  };
  const std::vector<Case> cases{
      {500, "", R"({"error":{"message":"the worker answered with status 500","type":"Internal Server Error")"},
      {413, "<html>\n", R"({"error":{"message":"the worker answered with status 413: <html>\n","type":)"},
      {302, "", R"({"error":{"message":"the worker answered with status 302","type":"Bad Gateway")"},
      {204, "", R"({"error":{"message":"the worker answered with status 204","type":"Bad Gateway")"},
      {404, R"({"detail":"Not Found"})",
       R"({"error":{"message":"the worker answered with status 404: {\"detail\":\"Not Found\"}","type":"Not Found")"},
      {400, R"({"object":"error","message":"too long","code":400})", R"({"error":{"message":"too long","type":)"},
      {400, "{\"error\":\n{\"message\":\"no\"}}", R"({"error": {"message":"no"}})"},
  };
  for (const Case& one : cases) {
    KeepingExchange exchange;
    EXPECT_TRUE(KeptStream::answer(exchange, {.status = one.status, .headers = {}, .body = one.body})) << one.status;
    EXPECT_THAT(exchange.text, StartsWith("data: " + one.event));
    EXPECT_THAT(exchange.text, ::testing::Not(HasSubstr("[DONE]"))) << "no answer";
    EXPECT_TRUE(exchange.ended);
  }
  KeepingExchange exchange;
  EXPECT_FALSE(KeptStream::answer(exchange, {.status = 200, .headers = {}, .body = R"({"choices":[]})"}));
  EXPECT_EQ(exchange.text, "data: {\"choices\":[]}\n\ndata: [DONE]\n\n");
}

TEST_F(HeldStreamTest, ARefusalBeforeAnyCommentHasItsStatus) {
  const auto stream = ask(R"("stream":true)");
  const Error error{ErrorCode::kUnavailable, "no room"};
  channel_.held.at(0)(std::unexpected(dispatch::Refusal(error, dispatch::Outcome::kRejected)));
  ASSERT_TRUE(stream->whole);
  EXPECT_EQ(stream->whole->status, 503);
  EXPECT_EQ(stream->heads, 0);
}

TEST_F(HeldStreamTest, AClientThatLeavesGetsNoMoreComments) {
  const auto stream = ask(R"("stream":true)");
  const auto other = ask(R"("stream":true)");
  std::size_t had = 0;
  run_until([&] { return !stream->text.empty() && !other->text.empty(); },
            [&] {
              stream->leave();
              had = stream->text.size();
              other->text.clear();
            },
            [&] { return other->text.size() >= 2 * kComment.size(); });
  EXPECT_EQ(channel_.left, 1);
  EXPECT_EQ(stream->text.size(), had);
}

}  // namespace
}  // namespace kvist::gateway::held_stream_test

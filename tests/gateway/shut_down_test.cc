// A gateway that is told to end, over real sockets.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>

#include "net/raw_socket.h"
#include "running_gateway.h"
#include "streaming_client.h"

namespace kvist::gateway::shut_down_test {
namespace {

const std::string kPath = "/v1/chat/completions";

TEST(ShutDown, LetsAnswersEndAndRefusesNewOnes) {
  FakeWorker worker("w0");
  worker.set_script(worker.stream_then_silence({std::string(kRoleEvent), text_event("one")}));
  RunningGateway gateway(gateway_spec({&worker}));
  StreamingClient client(gateway.url(), kPath, chat_body("Hello"));
  ASSERT_TRUE(client.await_text("one"));
  std::atomic<bool> done = false;
  gateway.shut_down([&] { done = true; });
  ASSERT_TRUE(await([&] { return gateway.get("/health").status == 503; }));
  const auto refused = gateway.chat(chat_body("Hello"));
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.headers.find("Retry-After"), "1");
  EXPECT_EQ(refused.headers.find("Connection"), "close");
  EXPECT_EQ(worker.posts().size(), 1U);
  EXPECT_FALSE(done);
  worker.end_held(text_event("two") + std::string(kDoneEvent));
  ASSERT_TRUE(client.await_over());
  EXPECT_TRUE(client.ended());
  EXPECT_EQ(client.body(), std::string(kRoleEvent) + text_event("one") + text_event("two") + std::string(kDoneEvent));
  EXPECT_TRUE(await([&] { return done.load(); }));
}

TEST(ShutDown, BreaksAnswersOffAtTheEndOfItsTime) {
  FakeWorker worker("w0");
  worker.set_script(worker.stream_then_silence({std::string(kRoleEvent), text_event("one")}));
  auto spec = gateway_spec({&worker});
  spec.drain_timeout = std::chrono::milliseconds(50);
  RunningGateway gateway(std::move(spec));
  StreamingClient client(gateway.url(), kPath, chat_body("Hello"));
  ASSERT_TRUE(client.await_text("one"));
  std::atomic<bool> done = false;
  gateway.shut_down([&] { done = true; });
  ASSERT_TRUE(client.await_over());
  EXPECT_FALSE(client.ended()) << "the client sees that the answer is incomplete";
  EXPECT_THAT(client.body(), ::testing::HasSubstr("data: {\"error\":{\"message\":\"the gateway is shutting down\""));
  EXPECT_TRUE(await([&] { return done.load(); }));
}

/// A client that has asked for an answer of so many bytes and reads it slowly.
class SlowReader {
 public:
  static constexpr std::size_t kBytes = 8U << 20;

  explicit SlowReader(const RunningGateway& gateway) : socket_(net::RawSocket::connect(gateway.port(), 4096)) {
    const std::string body = chat_body("Hello", R"("stream":false)");
    EXPECT_TRUE(socket_.send(
        fmt::format("POST {} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{}", kPath, body.size(), body)));
  }
  void read_some() { got_ += socket_.read_bytes(16U << 10); }
  /// All that was read in the end.
  [[nodiscard]] std::string rest() { return std::move(got_) + socket_.read_to_end(); }

 private:
  net::RawSocket socket_;
  std::string got_;
};

TEST(ShutDown, ASlowClientGetsItsLastBytes) {
  const std::string answer = R"({"id":"x","choices":[{"index":0,"message":{"role":"assistant","content":")" +
                             std::string(SlowReader::kBytes, 'a') + R"("}}]})";
  FakeWorker worker("w0", FakeWorker::answer_of(200, answer));
  auto gateway = std::make_unique<RunningGateway>(gateway_spec({&worker}));
  SlowReader client(*gateway);
  ASSERT_TRUE(await([&] { return worker.posts().size() == 1; }));
  std::atomic<bool> done = false;
  gateway->shut_down([&] { done = true; });
  while (!done) client.read_some();
  gateway.reset();
  const std::string got = client.rest();
  EXPECT_TRUE(got.contains(R"("}}]})")) << got.size() << " of more than " << answer.size() << " bytes";
}

TEST(ShutDown, AClientThatReadsNothingIsWaitedForUpToTheDeadline) {
  FakeWorker worker("w0", FakeWorker::answer_of(200, std::string(SlowReader::kBytes, ' ') + "{}"));
  auto spec = gateway_spec({&worker});
  spec.drain_timeout = std::chrono::milliseconds(300);
  RunningGateway gateway(std::move(spec));
  SlowReader client(gateway);
  ASSERT_TRUE(await([&] { return worker.posts().size() == 1; }));
  std::atomic<bool> done = false;
  gateway.shut_down([&] { done = true; });
  EXPECT_TRUE(await([&] { return done.load(); }));
}

TEST(ShutDown, AskedAgainItEndsAtOnce) {
  FakeWorker worker("w0");
  worker.set_script(worker.stream_then_silence({std::string(kRoleEvent), text_event("one")}));
  RunningGateway gateway(gateway_spec({&worker}));
  StreamingClient client(gateway.url(), kPath, chat_body("Hello"));
  ASSERT_TRUE(client.await_text("one"));
  std::atomic<bool> done = false;
  gateway.shut_down([&] { done = true; });
  ASSERT_TRUE(await([&] { return gateway.get("/health").status == 503; }));
  gateway.end_now();
  ASSERT_TRUE(client.await_over());
  EXPECT_FALSE(client.ended());
  EXPECT_TRUE(await([&] { return done.load(); }));
}

}  // namespace
}  // namespace kvist::gateway::shut_down_test

// What a worker asks of strangers, and what it lets them take.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "kvist/worker/client_listener.h"
#include "raw_client.h"
#include "running_worker.h"

namespace kvist::worker::exposure_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

class WorkerKeys : public ::testing::Test {
 protected:
  WorkerKeys() { write("sk-one\nsk-two\n"); }
  ~WorkerKeys() override { std::filesystem::remove(path_); }

  void write(std::string_view lines) const { std::ofstream(path_, std::ios::binary) << lines; }
  [[nodiscard]] spec::WorkerSpec spec() const {
    spec::WorkerSpec spec = fast_spec();
    spec.api_key_file = path_;
    return spec;
  }
  static net::HttpResponse ask(RunningWorker& worker, const std::string& path, const std::string& key = "",
                               const std::string& body = "") {
    net::Headers headers;
    if (!key.empty()) headers.add("Authorization", "Bearer " + key);
    return worker.call(body.empty() ? "GET" : "POST", path, body, std::move(headers));
  }

  std::string path_ = std::filesystem::temp_directory_path() / ("worker-keys-" + std::to_string(::getpid()));
};

TEST_F(WorkerKeys, OpenAllButHealth) {
  RunningWorker worker(spec());
  const std::string chat = chat_body("hi", R"("max_tokens":1)");
  for (const char* path : {"/v1/models", "/version", "/metrics"}) {
    EXPECT_EQ(ask(worker, path).status, 401) << path;
    EXPECT_EQ(ask(worker, path, "sk-on").status, 401) << path;
    EXPECT_EQ(ask(worker, path, "sk-one").status, 200) << path;
    EXPECT_EQ(ask(worker, path, "sk-two").status, 200) << path;
  }
  EXPECT_EQ(ask(worker, "/v1/chat/completions", "sk-two", chat).status, 200);
  EXPECT_EQ(ask(worker, "/tokenize", "", R"({"prompt":"a"})").status, 401);
  EXPECT_EQ(ask(worker, "/nowhere").status, 401) << "what there is, is told only to those who have a key";
  EXPECT_EQ(ask(worker, "/health").status, 200);
  EXPECT_EQ(ask(worker, "/ping").status, 200);

  net::HttpResponse refused = ask(worker, "/v1/chat/completions", "sk-three", chat);
  EXPECT_EQ(refused.headers.find("WWW-Authenticate"), "Bearer");
  EXPECT_TRUE(refused.headers.find("X-Request-Id"));
  EXPECT_EQ(refused.body, R"({"error":{"message":"Incorrect API key provided.","type":"invalid_request_error",)"
                          R"("param":null,"code":"invalid_api_key"}})");
  refused = ask(worker, "/v1/chat/completions", "", chat);
  EXPECT_THAT(refused.body, HasSubstr("You didn't provide an API key"));
  EXPECT_THAT(ask(worker, "/metrics", "sk-one").body, HasSubstr("kvist_worker_unauthenticated_requests_total 10\n"));
}

// A stranger's body is not read.
TEST_F(WorkerKeys, AreAskedForBeforeABodyIsRead) {
  RunningWorker worker(spec());
  RawClient client(worker.port());
  client.send("POST /tokenize HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n");
  EXPECT_THAT(client.read_until("\r\n\r\n"), StartsWith("HTTP/1.1 401 "));
}

TEST_F(WorkerKeys, AreReadAgain) {
  RunningWorker worker(spec());
  write("sk-three\n");
  EXPECT_TRUE(RunningWorker::await([&] { return ask(worker, "/version", "sk-three").status == 200; }));
  EXPECT_EQ(ask(worker, "/version", "sk-one").status, 401);
  write("no key\n");
  worker.reload();
  write("sk-four\n");
  EXPECT_TRUE(RunningWorker::await([&] { return ask(worker, "/version", "sk-four").status == 200; }));
}

TEST_F(WorkerKeys, AFileThatIsNotGoodIsSaidAtTheStart) {
  write("two words\n");
  net::EventLoop loop;
  const auto service = Service::create(loop, spec());
  ASSERT_FALSE(service);
  EXPECT_THAT(service.error().message, HasSubstr(path_));
  EXPECT_THAT(service.error().message, Not(HasSubstr("two words")));
}

TEST(WorkerLimits, BoundWhatClientsTake) {
  spec::WorkerSpec spec = fast_spec();
  spec.max_body_bytes = 2'000;
  spec.http_limits.head_bytes = 1'024;
  RunningWorker worker(spec);
  EXPECT_EQ(worker.post("/tokenize", chat_body(std::string(2'000, 'x'))).status, 413);
  net::Headers large;
  large.add("X-Large", std::string(2'000, 'x'));
  EXPECT_EQ(worker.call("GET", "/version", "", large).status, 431);
  const std::string page = worker.get("/metrics").body;
  EXPECT_THAT(page, HasSubstr("kvist_worker_http_refused_total{status=\"413\"} 1\n"));
  EXPECT_THAT(page, HasSubstr("kvist_worker_http_refused_total{status=\"431\"} 1\n"));
  EXPECT_THAT(page, HasSubstr("kvist_worker_http_refused_total{status=\"503\"} 0\n"));
}

TEST(WorkerLimits, WhoOnlyHoldsPlacesShutsNobodyOut) {
  spec::WorkerSpec spec = slow_spec();
  spec.http_limits.connections = 2;
  RunningWorker worker(spec);
  RawClient busy(worker.port());
  busy.post("/v1/chat/completions", chat_body("hi", R"("stream":true,"ignore_eos":true,"max_tokens":1500)"));
  EXPECT_THAT(busy.read_until("data: "), StartsWith("HTTP/1.1 200 "));
  RawClient idle(worker.port());
  EXPECT_EQ(worker.get("/version").status, 200);
  EXPECT_EQ(idle.read_until("never"), "");  // it was closed
  const std::string page = worker.get("/metrics").body;
  EXPECT_THAT(page, HasSubstr("kvist_worker_connections_closed_total{reason=\"made_room\"} "));
  EXPECT_THAT(page, Not(HasSubstr("kvist_worker_connections_closed_total{reason=\"made_room\"} 0\n")));
  EXPECT_THAT(page, HasSubstr("kvist_worker_connections{state=\"active\"} 2\n"));
}

TEST(WorkerLimits, HealthIsAnsweredWhenAllPlacesAreBusy) {
  spec::WorkerSpec spec = slow_spec();
  spec.http_limits.connections = 1;
  RunningWorker worker(spec);
  RawClient busy(worker.port());
  busy.post("/v1/chat/completions", chat_body("hi", R"("stream":true,"ignore_eos":true,"max_tokens":1500)"));
  EXPECT_THAT(busy.read_until("data: "), StartsWith("HTTP/1.1 200 "));
  EXPECT_EQ(worker.get("/health").status, 200);
  EXPECT_EQ(worker.get("/version").status, 503);
}

TEST(WorkerLimits, AnAddressHasItsBound) {
  spec::WorkerSpec spec = fast_spec();
  spec.http_limits.connections_per_address = 1;
  RunningWorker worker(spec);
  RawClient first(worker.port());
  first.send("GET /version HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_THAT(first.read_until("\r\n\r\n"), StartsWith("HTTP/1.1 200 "));
  RawClient second(worker.port());
  EXPECT_EQ(second.read_until("never"), "");
}

TEST(WorkerLimits, ClientsLeaveDescriptorsForOthers) {
  spec::WorkerSpec spec;
  spec.http_limits.connections = 10'000;
  EXPECT_EQ(client_listener(spec, 1'000'000).max_connections, 10'000U);
  EXPECT_EQ(client_listener(spec, 1'024).max_connections, 512U);
  EXPECT_EQ(client_listener(spec, 100).max_connections, 16U);
  spec.http_limits.connections = 5;
  EXPECT_EQ(client_listener(spec, 100).max_connections, 5U);
}

}  // namespace
}  // namespace kvist::worker::exposure_test

// What a worker lets strangers take.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "kvist/worker/client_listener.h"
#include "raw_client.h"
#include "running_worker.h"

namespace kvist::worker::exposure_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

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

// Begun streams that go on at another worker, over real sockets with scripted workers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kvist/openai/resumption.h"
#include "running_gateway.h"
#include "streaming_client.h"

namespace kvist::gateway::migration_test {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

const std::string kPath = "/v1/chat/completions";
const std::string kFinishEvent =
    "data: {\"id\":\"x\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
const std::string kBegin = ":2,65\n" + std::string(kRoleEvent) + text_event("a") + ":1,66\n" + text_event("b");
const std::string kRest =
    ":1,67\n" + text_event("c") + ":3\n" + kFinishEvent + std::string(kUsageEvent) + std::string(kDoneEvent);
const std::string kWhole = std::string(kRoleEvent) + text_event("a") + text_event("b") + text_event("c") +
                           kFinishEvent + std::string(kUsageEvent) + std::string(kDoneEvent);
const std::string kAsksUsage = R"("stream":true,"stream_options":{"include_usage":true})";

enum class End { kAbort, kInOrder, kError };

/// Streams what it has of an answer and fails; or the rest, if it is asked to go on behind `known` tokens.
FakeWorker::Script fails_behind(std::string begin, End end, std::string_view promise = "77") {
  return [begin, end, promise = std::string(promise)](const net::HttpRequest&, const FakeWorker::Exchange& exchange) {
    net::Headers headers = stream_headers();
    if (!promise.empty()) headers.add(std::string(openai::kResumableHeader), promise);
    exchange->begin_stream(200, std::move(headers));
    exchange->write(begin);
    if (end == End::kAbort) return exchange->abort();
    if (end == End::kError)
      exchange->write("data: {\"error\":{\"message\":\"shutting down\",\"code\":503}}\n\ndata: [DONE]\n\n");
    exchange->end_stream();
  };
}

FakeWorker::Script goes_on(std::string rest = kRest) {
  return fails_behind(std::move(rest), End::kInOrder);
}

TEST(Migration, TheClientSeesOneUnbrokenAnswer) {
  for (const End end : {End::kAbort, End::kInOrder, End::kError}) {
    for (const std::string_view half : {"", ":2,67,68\n", ":1,67\ndata: {\"id\""}) {
      if (end == End::kError && half.ends_with("\"id\"")) continue;  // that would be one event
      FakeWorker first("first", fails_behind(kBegin + std::string(half), end));
      FakeWorker second("second", goes_on());
      RunningGateway gateway(gateway_spec({&first, &second}));
      StreamingClient client(gateway.url(), kPath, chat_body("Hello", kAsksUsage));
      ASSERT_TRUE(client.await_over());
      EXPECT_TRUE(client.ended());
      EXPECT_EQ(client.body(), kWhole);
      ASSERT_EQ(first.posts().size(), 1U);
      EXPECT_EQ(first.posts()[0].headers.find(openai::kResumableHeader), "0");
      ASSERT_EQ(second.posts().size(), 1U);
      const net::HttpRequest rest = second.posts()[0];
      EXPECT_THAT(rest.body, StartsWith(R"({"kvist_resume":{"created":77,"token_ids":[65,66]},"model":"m",)"));
      EXPECT_THAT(rest.body, EndsWith(first.posts()[0].body.substr(1)));
      EXPECT_EQ(rest.headers.find(openai::kResumableHeader), "2");
      EXPECT_EQ(rest.headers.find("X-Request-Id"), first.posts()[0].headers.find("X-Request-Id"));
      ASSERT_TRUE(gateway.await_idle());
      EXPECT_EQ(gateway.outcomes("completed"), 1);
      EXPECT_EQ(gateway.metric("kvist_gateway_migrations_total"), 1);
      EXPECT_EQ(gateway.metric("kvist_gateway_migrated_tokens_total"), 2);
      EXPECT_EQ(gateway.metric("kvist_gateway_migration_gap_seconds_count"), 1);
      EXPECT_EQ(gateway.metric("kvist_gateway_migrations_refused_total"), 0);
      EXPECT_EQ(gateway.metric("kvist_gateway_time_to_first_token_seconds_count"), 1);
      EXPECT_THAT(gateway.get("/admin/decisions").body, HasSubstr("transport behind 2 tokens of the answer: "));
    }
  }
}

TEST(Migration, MayHappenAgain) {
  FakeWorker first("first", fails_behind(kBegin, End::kAbort));
  FakeWorker second("second", fails_behind(":1,67\n" + text_event("c"), End::kAbort));
  FakeWorker third("third", goes_on(":3\n" + kFinishEvent + std::string(kUsageEvent) + std::string(kDoneEvent)));
  spec::GatewaySpec spec = gateway_spec({&first, &second, &third});
  spec.mode = spec::RoutingMode::kRoundRobin;
  RunningGateway gateway(spec);
  StreamingClient client(gateway.url(), kPath, chat_body("Hello", kAsksUsage));
  ASSERT_TRUE(client.await_over());
  EXPECT_EQ(client.body(), kWhole);
  ASSERT_EQ(third.posts().size(), 1U);
  EXPECT_THAT(third.posts()[0].body, StartsWith(R"({"kvist_resume":{"created":77,"token_ids":[65,66,67]},)"));
  EXPECT_EQ(gateway.metric("kvist_gateway_migrations_total"), 2);
}

/// Which of the refusals is counted for a stream of `first` before the other workers and these settings.
void expect_refused(const FakeWorker::Script& script, std::string_view reason, const FakeWorker::Script& others,
                    const spec::MigrationSpec& migration = {}) {
  FakeWorker first("first", script);
  FakeWorker second("second", others);
  spec::GatewaySpec spec = gateway_spec({&first, &second});
  spec.migration = migration;
  RunningGateway gateway(spec);
  StreamingClient client(gateway.url(), kPath, chat_body("Hello", kAsksUsage));
  ASSERT_TRUE(client.await_over());
  EXPECT_FALSE(client.ended()) << "a broken answer must not look whole";
  EXPECT_THAT(client.body(), HasSubstr(R"(data: {"error":{)"));
  EXPECT_THAT(client.body(), testing::Not(HasSubstr("[DONE]")));
  ASSERT_TRUE(gateway.await_idle());
  EXPECT_EQ(gateway.outcomes("broken_stream"), 1);
  EXPECT_EQ(gateway.metric("kvist_gateway_migrations_refused_total", "reason", reason), 1) << reason;
  EXPECT_EQ(gateway.metric("kvist_gateway_migrations_refused_total"), 1) << reason;
}

TEST(Migration, IsRefusedWithACountedReason) {
  const FakeWorker::Script fails = fails_behind(kBegin, End::kAbort);
  const std::string plain = std::string(kRoleEvent) + text_event("a");
  expect_refused(fails_behind(kBegin, End::kAbort, ""), "engine", goes_on());
  expect_refused(fails_behind(plain, End::kAbort, ""), "engine", goes_on());
  expect_refused(fails_behind(plain, End::kAbort, "several_choices"), "several_choices", goes_on());
  expect_refused(fails_behind(plain, End::kAbort, "tool_calls"), "tool_calls", goes_on());
  expect_refused(fails_behind(plain, End::kAbort), "engine", goes_on());
  expect_refused(fails, "too_long", goes_on(), {.max_tokens = 1});
  expect_refused(fails, "large_request", goes_on(), {.max_request_bytes = 20});
  expect_refused(fails_behind(plain, End::kAbort, ""), "off", goes_on(), {.enabled = false});
  expect_refused(fails, "no_worker", FakeWorker::answer_of(400, R"({"error":{"message":"no"}})"));
  expect_refused(fails, "no_worker", FakeWorker::answer_of(503, R"({"error":{"message":"full"}})"));
  expect_refused(fails, "no_worker", fails_behind(kWhole, End::kInOrder, ""));
  expect_refused(fails, "too_often", fails_behind(":1,67\n" + text_event("c"), End::kAbort), {.max = 1});
}

TEST(Migration, AnErrorBeforeTheFirstTokenIsPassedOnWhereNobodyElseCanAnswer) {
  FakeWorker worker("w0", fails_behind("", End::kError));
  RunningGateway gateway(gateway_spec({&worker}));
  StreamingClient client(gateway.url(), kPath, chat_body("Hello", kAsksUsage));
  ASSERT_TRUE(client.await_over());
  EXPECT_THAT(client.body(), HasSubstr("shutting down"));
}

// A stream that says to be complete within a group is not, and must end all the same.
TEST(Migration, AnAnswerThatIsDoneWithinAGroupIsBrokenOff) {
  for (const End end : {End::kInOrder, End::kAbort}) {
    FakeWorker worker("w0", fails_behind(kBegin + ":9\n" + std::string(kDoneEvent), end));
    RunningGateway gateway(gateway_spec({&worker}));
    StreamingClient client(gateway.url(), kPath, chat_body("Hello", kAsksUsage));
    ASSERT_TRUE(client.await_over());
    EXPECT_FALSE(client.ended());
    ASSERT_TRUE(gateway.await_idle());
    EXPECT_EQ(gateway.outcomes("broken_stream"), 1);
  }
}

TEST(Migration, AClientNeitherAsksForNotesNorSeesThem) {
  FakeWorker worker("w0", fails_behind(kBegin + kRest, End::kInOrder));
  spec::GatewaySpec spec = gateway_spec({&worker});
  net::Headers headers;
  headers.add("X-Kvist-Resumable", "9");
  {
    RunningGateway gateway(spec);
    const auto response = gateway.chat(chat_body("Hello", kAsksUsage), headers);
    EXPECT_EQ(response.body, kWhole);
    EXPECT_FALSE(response.headers.find(openai::kResumableHeader));
    EXPECT_EQ(worker.posts().back().headers.find(openai::kResumableHeader), "0");
    (void)gateway.chat(chat_body("Hello", R"("stream":false)"), headers);
    EXPECT_FALSE(worker.posts().back().headers.find(openai::kResumableHeader)) << "nothing of it is sent early";
  }
  spec.migration.enabled = false;
  RunningGateway gateway(spec);
  (void)gateway.chat(chat_body("Hello"), headers);
  EXPECT_FALSE(worker.posts().back().headers.find(openai::kResumableHeader));
}

TEST(Migration, AWorkerThatDoesNotGoOnIsPassedByAndNotBlamed) {
  FakeWorker first("first", fails_behind(kBegin, End::kAbort));
  FakeWorker second("second", fails_behind(kWhole, End::kInOrder, ""));
  FakeWorker third("third", goes_on());
  spec::GatewaySpec spec = gateway_spec({&first, &second, &third});
  spec.mode = spec::RoutingMode::kRoundRobin;
  RunningGateway gateway(spec);
  StreamingClient client(gateway.url(), kPath, chat_body("Hello", kAsksUsage));
  ASSERT_TRUE(client.await_over());
  EXPECT_EQ(client.body(), kWhole);
  EXPECT_EQ(gateway.metric("kvist_gateway_attempt_failures_total", "reason", "not_resumable"), 1);
  EXPECT_EQ(gateway.metric("kvist_gateway_worker_failures_total", "worker", "second"), 0);
}

}  // namespace
}  // namespace kvist::gateway::migration_test

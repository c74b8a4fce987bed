// Workers come and go while the gateway serves.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "kvist/gateway/dns_groups.h"
#include "kvist/gateway/key_file.h"
#include "kvist/gateway/reloaded_file.h"
#include "kvist/net/sha256.h"
#include "running_gateway.h"
#include "streaming_client.h"

namespace kvist::gateway::fleet_changes_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr const char* kChats = "/v1/chat/completions";

class FleetChangesTest : public ::testing::TestWithParam<std::uint32_t> {
 protected:
  spec::GatewaySpec spec(const std::vector<const FakeWorker*>& workers, std::uint32_t places) const {
    spec::GatewaySpec result = gateway_spec(workers);
    result.threads = GetParam();
    result.max_workers = places;
    return result;
  }
  static std::string body_of(const FakeWorker& worker) {
    const spec::UpstreamSpec upstream = worker.upstream();
    return fmt::format(R"({{"name":"{}","url":"{}","kv_events":"{}","kv_replay":"{}"}})", upstream.name, upstream.url,
                       upstream.kv_events, upstream.kv_replay);
  }
  static std::string named(const std::string& name) { return fmt::format(R"({{"name":"{}"}})", name); }
  static bool await_healthy(const RunningGateway& gateway, double workers) {
    return await([&] { return gateway.metric("kvist_gateway_worker_healthy") == workers; });
  }
  static bool await_vacant(const RunningGateway& gateway, double places) {
    return await([&] { return gateway.metric("kvist_gateway_worker_places_vacant") == places; });
  }

  FakeWorker a_{"a"};
  FakeWorker b_{"b"};
};

TEST_P(FleetChangesTest, AWorkerIsAddedAndServes) {
  const RunningGateway gateway(spec({&a_}, 2));
  const auto added = gateway.call("POST", "/admin/workers", body_of(b_));
  EXPECT_EQ(added.status, 201);
  EXPECT_THAT(added.body, HasSubstr(R"("place":1,"name":"b")"));
  EXPECT_THAT(added.body, HasSubstr(R"("source":"administration","admission":"serving")"));
  ASSERT_TRUE(await_healthy(gateway, 2));
  for (int i = 0; i < 4; ++i) EXPECT_EQ(gateway.chat(chat_body("x")).status, 200);
  EXPECT_FALSE(b_.posts().empty());
  EXPECT_FALSE(a_.posts().empty());
  EXPECT_EQ(gateway.call("POST", "/admin/workers", body_of(b_)).status, 400);
}

TEST_P(FleetChangesTest, OneUrlHasOneKey) {
  const std::string key = ::testing::TempDir() + fmt::format("one-url-has-one-key-{}", GetParam());
  std::ofstream(key) << "secret\n";
  spec::GatewaySpec settings = spec({&a_}, 2);
  settings.workers[0].api_key_file = key;
  const RunningGateway gateway(settings);
  const auto added =
      gateway.call("POST", "/admin/workers", fmt::format(R"({{"name":"c","url":"{}"}})", a_.upstream().url));
  EXPECT_EQ(added.status, 400);
  EXPECT_THAT(added.body, HasSubstr("another api_key_file"));
  EXPECT_EQ(gateway.metric("kvist_gateway_worker_places_vacant"), 1);
}

// Or any user of the machine, whose administration is on loopback without keys, could have it sent to his own server.
TEST_P(FleetChangesTest, WhoIsAddedByAnyoneIsNotSentTheFleetsKey) {
  const std::string key = ::testing::TempDir() + fmt::format("fleets-key-{}", GetParam());
  std::ofstream(key) << "secret\n";
  spec::GatewaySpec settings = spec({&a_}, 4);
  settings.worker_api_key_file = key;
  const RunningGateway gateway(settings);
  const auto added = gateway.call("POST", "/admin/workers", body_of(b_));
  EXPECT_EQ(added.status, 201);
  EXPECT_THAT(added.body, HasSubstr(R"("fleet_key":"withheld")"));
  // The file has this URL, so its author wants it to have the key, and connections are an URL's.
  const auto same =
      gateway.call("POST", "/admin/workers", fmt::format(R"({{"name":"c","url":"{}"}})", a_.upstream().url));
  EXPECT_EQ(same.status, 201);
  EXPECT_THAT(same.body, Not(HasSubstr("withheld")));
  ASSERT_TRUE(await_healthy(gateway, 3));
  std::ofstream(key) << "secret2\n";  // read again, though not for b
  ASSERT_TRUE(await([&] {
    (void)gateway.chat(chat_body("x"));
    return !b_.posts().empty() && !a_.posts().empty() &&
           a_.posts().back().headers.find("Authorization") == "Bearer secret2";
  }));
  const std::size_t had = b_.posts().size();
  ASSERT_TRUE(await([&] { return (void)gateway.chat(chat_body("x")), b_.posts().size() > had; }));
  for (const net::HttpRequest& request : b_.posts()) EXPECT_FALSE(request.headers.find("Authorization"));
  std::remove(key.c_str());
}

TEST_P(FleetChangesTest, WhoIsAddedByAnAdministratorWithAKeyIsSentTheFleetsKey) {
  const std::string base = ::testing::TempDir() + fmt::format("guarded-fleets-key-{}", GetParam());
  std::ofstream(base) << "secret\n";
  std::ofstream(base + ".admins") << to_line({.name = "root", .hash = net::sha256("admin")}) << "\n";
  spec::GatewaySpec settings = spec({&a_}, 4);
  settings.worker_api_key_file = base;
  settings.api_keys.admin_file = base + ".admins";
  const RunningGateway gateway(settings, false);
  net::Headers admin;
  admin.add("Authorization", "Bearer admin");
  const auto added = gateway.call("POST", "/admin/workers", body_of(b_), admin);
  EXPECT_EQ(added.status, 201);
  EXPECT_THAT(added.body, Not(HasSubstr("withheld")));
  ASSERT_TRUE(await([&] { return (void)gateway.chat(chat_body("x")), !b_.posts().empty(); }));
  EXPECT_EQ(b_.posts().front().headers.find("Authorization"), "Bearer secret");
  std::remove(base.c_str());
  std::remove((base + ".admins").c_str());
}

TEST_P(FleetChangesTest, ADrainedWorkersStreamsEndAndThenItIsGone) {
  a_.set_script(a_.stream_then_silence({std::string(kRoleEvent), text_event("one")}));
  const RunningGateway gateway(spec({&a_}, 2));
  StreamingClient client(gateway.url(), kChats, chat_body("Hello"));
  ASSERT_TRUE(client.await_text("one"));
  EXPECT_EQ(gateway.call("POST", "/admin/workers", body_of(b_)).status, 201);
  ASSERT_TRUE(await_healthy(gateway, 2));
  const auto drained = gateway.call("POST", "/admin/workers/drain", named("a"));
  EXPECT_EQ(drained.status, 202);
  EXPECT_THAT(drained.body, HasSubstr(R"("admission":"draining")"));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(gateway.chat(chat_body("x")).headers.find("x-kvist-worker"), "b");
  EXPECT_EQ(gateway.metric("kvist_gateway_worker_places_vacant"), 0);
  a_.end_held(text_event("two") + std::string(kDoneEvent));
  ASSERT_TRUE(client.await_over());
  EXPECT_TRUE(client.ended());
  ASSERT_TRUE(await_vacant(gateway, 1));
  EXPECT_THAT(gateway.get("/admin/workers").body, Not(HasSubstr(R"("name":"a","url")")));
  EXPECT_THAT(gateway.get("/admin/status").body, Not(HasSubstr(R"("name":"a")")));
  EXPECT_EQ(gateway.metric("kvist_gateway_requests_total", "worker", "a"), 0) << "what it did is forgotten";
  EXPECT_EQ(gateway.chat(chat_body("x")).status, 200);
}

TEST_P(FleetChangesTest, ADrainTimeCutsAndARemovalCutsAtOnce) {
  for (FakeWorker* worker : {&a_, &b_})
    worker->set_script(worker->stream_then_silence({std::string(kRoleEvent), text_event("one")}));
  const RunningGateway gateway(spec({&a_, &b_}, 2));
  StreamingClient first(gateway.url(), kChats, chat_body("Hello"));
  StreamingClient second(gateway.url(), kChats, chat_body("Hello"));
  ASSERT_TRUE(first.await_text("one"));
  ASSERT_TRUE(second.await_text("one"));
  EXPECT_EQ(gateway.call("POST", "/admin/workers/drain", R"({"name":"a","timeout":"50 ms"})").status, 202);
  ASSERT_TRUE(await_vacant(gateway, 1));
  EXPECT_EQ(gateway.call("POST", "/admin/workers/remove", named("b")).status, 202);
  for (StreamingClient* client : {&first, &second}) {
    ASSERT_TRUE(client->await_over());
    EXPECT_FALSE(client->ended());
    EXPECT_THAT(client->body(), HasSubstr("data: {\"error\":{\"message\":\"the worker was removed from the fleet\""))
        << "neither engine tells tokens, so neither goes on";
  }
  ASSERT_TRUE(await_vacant(gateway, 2));
  EXPECT_EQ(gateway.get("/health").status, 503);
  const auto refused = gateway.chat(chat_body("x"));
  EXPECT_EQ(refused.status, 503);
  EXPECT_THAT(refused.body, HasSubstr("none of the 0 workers"));
}

TEST_P(FleetChangesTest, ADrainThatIsRepeatedKeepsItsEnd) {
  a_.set_script(a_.stream_then_silence({std::string(kRoleEvent), text_event("one")}));
  auto settings = spec({&a_}, 2);
  settings.drain_timeout = std::chrono::hours(1);
  const RunningGateway gateway(std::move(settings));
  StreamingClient client(gateway.url(), kChats, chat_body("Hello"));
  ASSERT_TRUE(client.await_text("one"));
  EXPECT_EQ(gateway.call("POST", "/admin/workers/drain", named("a")).status, 202);
  EXPECT_EQ(gateway.call("POST", "/admin/workers/drain", R"({"name":"a","timeout":"1 s"})").status, 202);
  EXPECT_EQ(gateway.call("POST", "/admin/workers/drain", named("a")).status, 202);
  ASSERT_TRUE(client.await_over()) << "the new timeout holds, and nothing has set it back to an hour";
  EXPECT_TRUE(await_vacant(gateway, 2));
}

TEST_P(FleetChangesTest, WhatHasNotBegunGoesElsewhereForFree) {
  a_.set_script(a_.silence());
  auto settings = spec({&a_}, 2);
  settings.retry_budget = {.per_request = 0, .per_second = 0, .at_start = 0};
  const RunningGateway gateway(std::move(settings));
  StreamingClient client(gateway.url(), kChats, chat_body("Hello"));
  ASSERT_TRUE(await([&] { return a_.posts().size() == 1; }));
  EXPECT_EQ(gateway.call("POST", "/admin/workers", body_of(b_)).status, 201);
  ASSERT_TRUE(await_healthy(gateway, 2));
  EXPECT_EQ(gateway.call("POST", "/admin/workers/remove", named("a")).status, 202);
  ASSERT_TRUE(client.await_over());
  EXPECT_TRUE(client.ended());
  EXPECT_EQ(gateway.metric("kvist_gateway_free_retries_total"), 1);
  ASSERT_TRUE(await_vacant(gateway, 1));
}

TEST_P(FleetChangesTest, APlaceIsUsedAgainAndAgain) {
  const RunningGateway gateway(spec({&a_}, 2));
  for (int i = 0; i < 10; ++i) {
    ASSERT_EQ(gateway.call("POST", "/admin/workers", body_of(b_)).status, 201) << i;
    ASSERT_TRUE(await_healthy(gateway, 2));
    EXPECT_EQ(gateway.metric("kvist_gateway_requests_total", "worker", "b"), 0);
    for (int k = 0; k < 3; ++k) EXPECT_EQ(gateway.chat(chat_body("x")).status, 200);
    ASSERT_EQ(gateway.call("POST", i % 2 == 0 ? "/admin/workers/drain" : "/admin/workers/remove", named("b")).status,
              202);
    ASSERT_TRUE(await_vacant(gateway, 1));
  }
}

/// The gateway's file, as an operator changes it.
class FleetFileTest : public FleetChangesTest {
 protected:
  ~FleetFileTest() override { std::remove(file_.c_str()); }

  void write(const std::vector<const FakeWorker*>& workers) const {
    std::ofstream out(file_);
    out << "gateway:\n" << spec::to_yaml(spec(workers, 3), 2);
  }
  /// What GET /admin/workers says of a worker in this field; empty: nothing.
  static std::string told(const RunningGateway& gateway, const std::string& name, const std::string& field) {
    const std::string body = gateway.get("/admin/workers").body;
    const std::size_t at = body.find(fmt::format(R"("name":"{}","url")", name));
    const std::string key = fmt::format(R"("{}":")", field);
    const std::size_t value = at == std::string::npos ? at : body.find(key, at);
    if (value == std::string::npos) return {};
    return body.substr(value + key.size(), body.find('"', value + key.size()) - value - key.size());
  }
  static bool await_told(const RunningGateway& gateway, const std::string& name, const std::string& field,
                         const std::string& value) {
    return await([&] { return told(gateway, name, field) == value; });
  }

  const std::string file_ = ::testing::TempDir() + fmt::format("fleet-file-{}-{}.yaml", ::getpid(), GetParam());
};

// Loading a tokenizer takes seconds, and the file may change meanwhile.
TEST_P(FleetFileTest, AChangeWhileTheGatewayStartsIsReadToo) {
  write({&a_});
  const SettingsFile read_from(file_);
  write({&a_, &b_});
  const RunningGateway gateway(spec({&a_}, 3), /*await_workers=*/false, read_from);
  EXPECT_TRUE(await_healthy(gateway, 2));
}

TEST_P(FleetFileTest, WhatAnAdministratorDecidedOutlastsTheFile) {
  write({&a_, &b_});
  const RunningGateway gateway(spec({&a_, &b_}, 3), true, SettingsFile(file_));
  const auto change = [&](const std::string& what, const std::string& name) {
    return gateway.call("POST", "/admin/workers/" + what, named(name)).status;
  };
  // Cordoned, and gone from the file and back again.
  EXPECT_EQ(change("cordon", "b"), 200);
  write({&a_});
  ASSERT_TRUE(await_told(gateway, "b", "admission", ""));
  write({&a_, &b_});
  ASSERT_TRUE(await_told(gateway, "b", "admission", "cordoned"));
  for (int i = 0; i < 4; ++i) EXPECT_EQ(gateway.chat(chat_body("x")).status, 200);
  EXPECT_TRUE(b_.posts().empty());
  EXPECT_EQ(change("uncordon", "b"), 200);
  EXPECT_EQ(told(gateway, "b", "admission"), "serving");
  // Drained, and gone from the file and back again.
  EXPECT_EQ(change("drain", "b"), 202);
  ASSERT_TRUE(await_told(gateway, "b", "admission", ""));
  EXPECT_THAT(gateway.get("/admin/workers").body, HasSubstr(R"("held":[{"name":"b","as":"removed","model":"m"}])"));
  write({&a_});
  std::this_thread::sleep_for(std::chrono::milliseconds(2500));
  write({&a_, &b_});
  ASSERT_TRUE(await([&] { return told(gateway, "b", "problem").contains("an administrator took it out"); }));
  EXPECT_EQ(change("uncordon", "b"), 200);
  EXPECT_TRUE(await_told(gateway, "b", "admission", "serving"));
  EXPECT_THAT(gateway.get("/admin/workers").body, HasSubstr(R"("held":[])"));
  EXPECT_EQ(change("uncordon", "nobody"), 404);
}

TEST_P(FleetFileTest, FurtherNamesOfTheModelFollowTheFile) {
  write({&a_});
  const RunningGateway gateway(spec({&a_}, 3), true, SettingsFile(file_));
  const auto name_at_worker = [&] {
    EXPECT_EQ(gateway.chat(R"({"model":"gpt-4o","messages":[{"role":"user","content":"x"}],"stream":true})").status,
              200);
    return a_.posts().back().body.contains(R"("model":"m")") ? "m" : "gpt-4o";
  };
  EXPECT_STREQ(name_at_worker(), "gpt-4o") << "what it does not know is the worker's to refuse";
  {
    spec::GatewaySpec settings = spec({&a_}, 3);
    settings.model_aliases = {"gpt-4o"};
    std::ofstream out(file_);
    out << "gateway:\n" << spec::to_yaml(settings, 2);
  }
  ASSERT_TRUE(await([&] { return std::string(name_at_worker()) == "m"; }));
  EXPECT_TRUE(await([&] { return gateway.get("/v1/models").body.contains(R"("id":"gpt-4o")"); }));
  write({&a_});
  EXPECT_TRUE(await([&] { return std::string(name_at_worker()) == "gpt-4o"; }));
  EXPECT_TRUE(await([&] { return !gateway.get("/v1/models").body.contains("gpt-4o"); }));
}

// An idle worker is gone at once, and its namesake in the file takes the name in the same moment.
TEST_P(FleetFileTest, WhoWaitsForTheNameOfADrainedWorkerIsHeldToo) {
  write({&a_});
  const RunningGateway gateway(spec({&a_}, 3), true, SettingsFile(file_));
  ASSERT_EQ(gateway.call("POST", "/admin/workers", body_of(b_)).status, 201);
  write({&a_, &b_});
  ASSERT_TRUE(await([&] { return gateway.get("/admin/workers").body.contains("there is a worker"); }));
  EXPECT_EQ(gateway.call("POST", "/admin/workers/drain", named("b")).status, 202);
  ASSERT_TRUE(await([&] { return told(gateway, "b", "problem").contains("an administrator took it out"); }));
  EXPECT_TRUE(await_told(gateway, "b", "admission", ""));
}

TEST_P(FleetFileTest, FilesOfAWorkerThatComesAreReadAndMayBeMissingAtFirst) {
  const std::string key = file_ + ".key";
  spec::GatewaySpec settings = spec({&a_, &b_}, 3);
  settings.workers[1].api_key_file = key;
  {
    std::ofstream out(file_);
    out << "gateway:\n" << spec::to_yaml(settings, 2);
  }
  std::ofstream(key) << "of-b\n";
  settings.workers.pop_back();
  SettingsFile read_from(file_);
  read_from.before.clear();  // as if the file had had another list before
  std::remove(key.c_str());
  const RunningGateway gateway(settings, true, read_from);
  ASSERT_TRUE(await([&] { return told(gateway, "b", "problem").contains("No such file"); }));
  std::ofstream(key) << "of-b\n";
  EXPECT_TRUE(await_healthy(gateway, 2));
  for (int i = 0; i < 4; ++i) EXPECT_EQ(gateway.chat(chat_body("x")).status, 200);
  ASSERT_FALSE(b_.posts().empty());
  EXPECT_EQ(b_.posts().front().headers.find("Authorization"), "Bearer of-b");
  std::remove(key.c_str());
}

INSTANTIATE_TEST_SUITE_P(Threads, FleetFileTest, ::testing::Values(1U, 3U));
INSTANTIATE_TEST_SUITE_P(Threads, FleetChangesTest, ::testing::Values(1U, 3U));

spec::UpstreamSpec worker(const std::string& name, int port) {
  return {.name = name, .url = fmt::format("http://h:{}", port), .kv_events = {}, .kv_replay = {}};
}

spec::WorkerGroupSpec group_of(const std::string& name, const std::string& dns_name) {
  spec::WorkerGroupSpec group;
  group.name = name;
  group.dns_name = dns_name;
  return group;
}

TEST(FleetPlan, HasWhatDiffers) {
  auto limited = worker("limits", 4);
  limited.limits.max_batch_size = 7;
  const FleetPlan plan = plan_of({worker("stays", 1), worker("goes", 2), worker("moves", 3), worker("limits", 4)},
                                 {worker("comes", 5), worker("stays", 1), worker("moves", 6), limited});
  EXPECT_THAT(plan.drain, ElementsAre("goes"));
  EXPECT_THAT(plan.add, ElementsAre(worker("comes", 5)));
  EXPECT_THAT(plan.replace, ElementsAre(worker("moves", 6)));
  EXPECT_THAT(plan.limits, ElementsAre(limited));
  EXPECT_TRUE(plan_of({worker("a", 1), worker("b", 2)}, {worker("b", 2), worker("a", 1)}).empty());
}

TEST(FleetPlan, NamesSettingsThatNeedARestart) {
  spec::GatewaySpec before;
  before.workers = {worker("a", 1)};
  spec::GatewaySpec after = before;
  after.workers = {worker("b", 2)};
  after.worker_groups = {group_of("pool", "llm.test")};
  EXPECT_THAT(settings_that_differ(before, after), IsEmpty());
  after.mode = spec::RoutingMode::kKv;
  after.http.port = 80;
  after.max_retries = 7;
  after.drain_timeout = std::chrono::seconds(1);
  after.model_aliases = {"gpt-4o"};
  EXPECT_THAT(settings_that_differ(before, after), ElementsAre("http", "max_retries", "mode"));
  EXPECT_THAT(settings_that_differ(after, before), ElementsAre("http", "max_retries", "mode"));
}

TEST(GroupPlan, HasWhatDiffers) {
  spec::WorkerGroupSpec cluster = group_of("kind", "");
  cluster.kubernetes = spec::KubernetesSourceSpec{.service = "llm"};
  spec::WorkerGroupSpec other_cluster = cluster;
  other_cluster.name = "service";
  spec::WorkerGroupSpec changed_cluster = other_cluster;
  changed_cluster.kubernetes->service = "vllm";
  const GroupPlan plan = plan_of(
      {group_of("stays", "a"), group_of("goes", "b"), group_of("changes", "c"), group_of("kind", "d"), other_cluster},
      {group_of("comes", "e"), group_of("changes", "f"), group_of("stays", "a"), cluster, changed_cluster});
  EXPECT_THAT(plan.add, ElementsAre(group_of("comes", "e"), cluster));
  EXPECT_THAT(plan.remove, ElementsAre("goes", "kind"));
  EXPECT_THAT(plan.replace, ElementsAre(group_of("changes", "f"), changed_cluster));
  EXPECT_TRUE(plan_of(plan.add, {cluster, group_of("comes", "e")}).empty());
}

TEST(DnsGroup, HasAWorkerForEachEndpoint) {
  spec::WorkerGroupSpec group;
  group.name = "pool";
  group.kv_events_port = 5'557;
  group.limits.kv_blocks = 3;
  const auto workers =
      workers_of(group, {{.address = "10.0.0.7", .port = 8'000}, {.address = "2001:db8::7", .port = 1}});
  ASSERT_EQ(workers.size(), 2U);
  EXPECT_EQ(workers[0].name, "pool-10.0.0.7-8000");
  EXPECT_EQ(workers[0].url, "http://10.0.0.7:8000");
  EXPECT_EQ(workers[0].kv_events, "tcp://10.0.0.7:5557");
  EXPECT_EQ(workers[0].kv_replay, "");
  EXPECT_EQ(workers[0].limits.kv_blocks, 3U);
  EXPECT_EQ(workers[1].name, "pool-2001_db8__7-1");
  EXPECT_EQ(workers[1].url, "http://[2001:db8::7]:1");
}

TEST(ModelAliases, AreTheModelUnderOtherNames) {
  FakeWorker worker("w");
  worker.set_models(FakeWorker::answer_of(
      200,
      R"({"object":"list","data":[{"id":"m","object":"model","max_model_len":4096},{"id":"lora/x","object":"model"}]})"));
  auto spec = gateway_spec({&worker});
  spec.model_aliases = {"gpt-4o"};
  const RunningGateway gateway(std::move(spec));
  const std::string body = R"({"messages":[{"role":"user","content":"x"}], "model" : "gpt-4o","stream":true})";
  EXPECT_EQ(gateway.chat(body).status, 200);
  ASSERT_EQ(worker.posts().size(), 1U);
  EXPECT_THAT(worker.posts()[0].body, HasSubstr(R"("model" : "m",)"));
  EXPECT_THAT(gateway.get("/v1/models").body,
              HasSubstr(R"({"id":"gpt-4o","object":"model","owned_by":"kvist","root":"m","max_model_len":4096})"));
  EXPECT_THAT(gateway.get("/v1/models/gpt-4o").body, HasSubstr(R"("root":"m")"));
  EXPECT_THAT(gateway.get("/v1/models/m").body, HasSubstr(R"("max_model_len":4096)"));
  for (const char* path : {"/v1/models/lora/x", "/v1/models/lora%2Fx"})
    EXPECT_EQ(gateway.get(path).body, R"({"id":"lora/x","object":"model"})");
  EXPECT_EQ(gateway.get("/v1/models/nobody").status, 404);
  EXPECT_EQ(gateway.call("POST", "/v1/models/a%20b", "{}").status, 404);
}

}  // namespace
}  // namespace kvist::gateway::fleet_changes_test

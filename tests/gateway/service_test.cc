// The service around the proxy: paths, errors, health, admin, metrics, KV events.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "kvist/gateway/model_list.h"
#include "kvist/kv/kv_event_codec.h"
#include "kvist/routing/decision_json.h"
#include "kvist/tokenizer/tokenizer.h"
#include "running_gateway.h"

namespace kvist::gateway::service_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A batch that stores the complete blocks of a text prompt.
std::string stored_batch(std::string_view prompt, std::uint32_t block_size = kBlockSize) {
  kv::BlockStored event;
  std::vector<TokenId> tokens;
  tokenizer::ByteTokenizer().encode(prompt, tokens);
  tokens.resize(tokens.size() / block_size * block_size);
  for (std::uint64_t i = 0; i < tokens.size() / block_size; ++i) event.hashes.emplace_back(1'000 + i);
  event.tokens = std::move(tokens);
  event.block_size = block_size;
  kv::KvEventBatch batch;
  batch.events.emplace_back(std::move(event));
  return kv::encode_kv_events(batch);
}

std::string completion_body(std::string_view prompt) {
  return fmt::format(R"({{"model":"m","prompt":"{}","stream":true}})", prompt);
}

std::string mode_of(const RunningGateway& gateway) {
  return gateway.get("/admin/router_mode").body;
}

class ServiceTest : public ::testing::Test {
 protected:
  FakeWorker a_{"a"};
  FakeWorker b_{"b"};
};

TEST_F(ServiceTest, AnswersClientErrorsInTheApisForm) {
  const RunningGateway gateway(gateway_spec({&a_}));
  const auto unknown = gateway.get("/nowhere");
  EXPECT_EQ(unknown.status, 404);
  EXPECT_EQ(unknown.body, R"({"error":{"message":"no such path: /nowhere; there are /health, /v1/chat/completions, )"
                          R"(/v1/completions, /v1/messages, /v1/messages/count_tokens, /v1/models, /v1/responses",)"
                          R"("type":"Not Found","param":null,"code":404}})");
  const auto wrong_method = gateway.call("DELETE", "/admin/router_mode");
  EXPECT_EQ(wrong_method.status, 405);
  EXPECT_EQ(wrong_method.headers.find("Allow"), "GET, POST, PUT");
  EXPECT_THAT(wrong_method.body, HasSubstr(R"("type":"Method Not Allowed","param":null,"code":405)"));
  EXPECT_TRUE(unknown.headers.find("X-Request-Id"));
  EXPECT_NE(unknown.headers.find("X-Request-Id"), wrong_method.headers.find("X-Request-Id"));
  net::Headers named;
  named.set("X-Request-Id", "mine");
  for (const char* path : {"/nowhere", "/health", "/v1/models/a%0Ab"}) {
    const auto refused = gateway.call("POST", path, "", named);
    EXPECT_TRUE(refused.status == 404 || refused.status == 405) << path;
    EXPECT_EQ(refused.headers.find("X-Request-Id"), "mine") << path;
  }
  EXPECT_EQ(gateway.call("POST", "/reset_prefix_cache").status, 404);
  EXPECT_EQ(gateway.call("POST", "/v1/load_lora_adapter", "{}").status, 404);
  EXPECT_TRUE(a_.posts().empty());
}

TEST_F(ServiceTest, UnreadableRequestsAreLeftToTheWorker) {
  const std::string answer = R"({"error":{"message":"in its own words"}})";
  a_.set_script(FakeWorker::answer_of(400, answer));
  const RunningGateway gateway(gateway_spec({&a_}));
  const std::vector<std::string> bodies = {R"({"model":"m","messages":5})", "{broken", "",
                                           R"({"model":"adapter","messages":[{"role":"user","content":"a"}]})"};
  for (const std::string& body : bodies) {
    const auto response = gateway.chat(body);
    EXPECT_EQ(response.status, 400) << body;
    EXPECT_EQ(response.body, answer) << body;
    EXPECT_TRUE(response.headers.find("X-Request-Id"));
    EXPECT_FALSE(response.headers.find("x-kvist-predicted-cached-tokens"));
  }
  const auto posts = a_.posts();
  ASSERT_EQ(posts.size(), bodies.size());
  for (std::size_t i = 0; i < bodies.size(); ++i) EXPECT_EQ(posts[i].body, bodies[i]);
  EXPECT_EQ(gateway.metric("kvist_gateway_passed_on_total", "what", "unread_body"), 4);
  EXPECT_EQ(gateway.outcomes("refused"), 4);
  EXPECT_EQ(gateway.metric("kvist_gateway_worker_healthy"), 1);
}

TEST_F(ServiceTest, ARequestWithoutAModelIsReadAndGoesAsItIs) {
  const RunningGateway gateway(gateway_spec({&a_}));
  const std::string body = R"({"messages":[{"role":"user","content":"a"}],"stream":true,"stream_options":)"
                           R"({"include_usage":true}})";
  const auto response = gateway.chat(body);
  EXPECT_EQ(response.status, 200);
  EXPECT_TRUE(response.headers.find("x-kvist-predicted-cached-tokens"));
  EXPECT_EQ(a_.posts().at(0).body, body);
  EXPECT_EQ(gateway.metric("kvist_gateway_passed_on_total"), 0);
}

TEST_F(ServiceTest, UnknownEndpointsArePassedThroughUnchanged) {
  const std::string stream = "event: response.created\ndata: {\"type\":\"response.created\"}\n\nno event at all";
  a_.set_script([&](const net::HttpRequest& request, const FakeWorker::Exchange& exchange) {
    if (request.path() == "/v1/embeddings") return FakeWorker::answer_of(200, R"({"data" : []})")(request, exchange);
    FakeWorker::stream_of({stream})(request, exchange);
  });
  const RunningGateway gateway(gateway_spec({&a_}));
  const auto embeddings = gateway.call("POST", "/v1/embeddings?x=1", R"({"input":"a"})");
  EXPECT_EQ(embeddings.status, 200);
  EXPECT_EQ(embeddings.body, R"({"data" : []})");
  EXPECT_TRUE(embeddings.headers.find("Content-Length"));
  EXPECT_EQ(gateway.call("POST", "/v1/audio/speech", R"({"input":"a","stream":true})").body, stream);
  ASSERT_EQ(a_.posts().size(), 2U);
  EXPECT_EQ(a_.posts()[0].target, "/v1/embeddings?x=1");
  EXPECT_EQ(a_.posts()[1].body, R"({"input":"a","stream":true})");
  ASSERT_TRUE(gateway.await_idle());
  EXPECT_EQ(gateway.outcomes("completed"), 2);
  EXPECT_EQ(gateway.metric("kvist_gateway_passed_on_total", "what", "other_endpoint"), 2);
  EXPECT_EQ(gateway.metric("kvist_gateway_unreadable_chunks_total"), 0);
}

TEST_F(ServiceTest, ListsItsModel) {
  const RunningGateway gateway(gateway_spec({&a_}));
  const auto models = gateway.get("/v1/models?x=1");
  EXPECT_EQ(models.status, 200);
  EXPECT_THAT(models.body, HasSubstr("\"id\":\"m\"")) << "the worker gave no list";
}

TEST_F(ServiceTest, TheListOfModelsIsThatOfAllWorkers) {
  const auto list_of = [](std::string models) {
    return FakeWorker::answer_of(200, R"({"object":"list","data":[)" + models + "]}");
  };
  a_.set_models(list_of(R"({"id":"m", "root":"/models/m","permission":[{"id":"p"}]},{"id":"one"})"));
  b_.set_models(list_of(R"({"id":"m","root":"elsewhere"},{"id":"two","parent":"m"})"));
  const RunningGateway gateway(gateway_spec({&a_, &b_}));
  EXPECT_EQ(gateway.get("/v1/models").body,
            R"({"object":"list","data":[{"id":"m","root":"/models/m","permission":[{"id":"p"}]},)"
            R"({"id":"one"},{"id":"two","parent":"m"}]})");
  EXPECT_EQ(gateway.get("/v1/models").headers.find("Content-Type"), "application/json");
  a_.set_models(FakeWorker::answer_of(401, R"({"error":"Unauthorized"})"));
  b_.set_models(FakeWorker::answer_of(401, R"({"error":"Unauthorized"})"));
  ASSERT_TRUE(await([&] { return gateway.get("/v1/models").status == 401; })) << "a list holds for a second";
  const auto refused = gateway.get("/v1/models");
  EXPECT_EQ(refused.body, R"({"error":"Unauthorized"})");
}

TEST_F(ServiceTest, AnAdapterIsListedWhileItsWorkersAreInDoubt) {
  a_.set_models(FakeWorker::answer_of(200, R"({"object":"list","data":[{"id":"m"},{"id":"mine","parent":"m"}]})"));
  b_.set_models(FakeWorker::answer_of(200, R"({"object":"list","data":[{"id":"m"},{"id":"sql","parent":"m"}]})"));
  auto spec = gateway_spec({&a_, &b_});
  spec.mode = spec::RoutingMode::kRoundRobin;
  const RunningGateway gateway(std::move(spec));
  ASSERT_TRUE(await([&] { return gateway.get("/admin/status").body.contains("sql"); }));
  // Its connections fail from here on, which the next request finds out.
  b_.stop();
  for (int i = 0; i < 2; ++i) EXPECT_EQ(gateway.chat(chat_body("x")).status, 200);
  const std::string list = gateway.get("/v1/models").body;
  EXPECT_THAT(list, HasSubstr(R"({"id":"sql","object":"model","owned_by":"kvist","parent":"m"})"));
  EXPECT_EQ(gateway.get("/v1/models/sql").status, 200);
  // What a worker that answers does not have any more, it has not.
  a_.set_models(FakeWorker::answer_of(200, R"({"object":"list","data":[{"id":"m"}]})"));
  EXPECT_TRUE(await([&] { return gateway.get("/v1/models/mine").status == 404; }));
}

TEST_F(ServiceTest, AListOfModelsHoldsForASecond) {
  std::atomic<int> asked = 0;
  const RunningGateway gateway(gateway_spec({&a_}));
  a_.set_models([&](const net::HttpRequest& request, const FakeWorker::Exchange& exchange) {
    if (request.headers.find("X-Client")) ++asked;  // the gateway asks on its own behalf, too
    FakeWorker::answer_of(200, R"({"object":"list","data":[{"id":"m"}]})")(request, exchange);
  });
  const auto begun = std::chrono::steady_clock::now();
  constexpr int kClients = 200;
  for (int i = 0; i < kClients; ++i) {
    net::Headers headers;
    headers.add("X-Client", std::to_string(i));
    const std::string path = i % 2 == 0 ? fmt::format("/v1/models?x={}", i) : "/v1/models/m";
    EXPECT_EQ(gateway.call("GET", path, "", std::move(headers)).status, 200);
  }
  const auto seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  EXPECT_GE(asked, 1);
  EXPECT_LE(asked, 1 + seconds) << "of " << kClients << " clients";
}

TEST_F(ServiceTest, AListThatDependsOnWhoAsksIsForNobodyElse) {
  auto spec = gateway_spec({&a_});
  spec.pass_client_keys = true;
  const RunningGateway gateway(std::move(spec));
  a_.set_models([](const net::HttpRequest& request, const FakeWorker::Exchange& exchange) {
    const std::string who(request.headers.find("Authorization").value_or("nobody"));
    FakeWorker::answer_of(200, R"({"object":"list","data":[{"id":")" + who + R"("}]})")(request, exchange);
  });
  for (const char* who : {"alice", "bob", "alice"}) {
    net::Headers headers;
    headers.add("Authorization", who);
    const auto list = gateway.call("GET", "/v1/models", "", std::move(headers));
    EXPECT_THAT(list.body, HasSubstr(fmt::format(R"("id":"{}")", who)));
  }
}

TEST_F(ServiceTest, AModelIsItsEntryOfTheList) {
  a_.set_models(FakeWorker::answer_of(200, R"({"object":"list","data":[{"id":"m"}]})"));
  b_.set_models(FakeWorker::answer_of(200, R"({"object":"list","data":[{"id":"m"},{"id":"org/two","parent":"m"}]})"));
  const RunningGateway gateway(gateway_spec({&a_, &b_}));
  EXPECT_EQ(gateway.get("/v1/models/m").body, R"({"id":"m"})");
  EXPECT_EQ(gateway.get("/v1/models/org/two").body, R"({"id":"org/two","parent":"m"})");
  EXPECT_EQ(gateway.get("/v1/models/org%2Ftwo").body, R"({"id":"org/two","parent":"m"})");
  const auto missing = gateway.get("/v1/models/three");
  EXPECT_EQ(missing.status, 404);
  EXPECT_EQ(missing.body,
            R"({"error":{"message":"model: \"three\" does not exist; GET /v1/models lists those that do",)"
            R"("type":"NotFoundError","param":"model","code":404}})");
  EXPECT_FALSE(model_of_path("/v1/models/%2")) << "no escape";
  EXPECT_FALSE(model_of_path("/v1/models/%zz"));
  EXPECT_FALSE(model_of_path("/v1/models/"));
  EXPECT_EQ(gateway.get("/v1/models/a%0Ab").status, 404) << "no name";
  EXPECT_EQ(gateway.call("DELETE", "/v1/models/org%2Ftwo").status, 404);
}

TEST_F(ServiceTest, AHealthyWorkerIsCheckedSeldomAndADoubtfulOneAtOnce) {
  const RunningGateway gateway(gateway_spec({&a_}));
  const auto looks = [&] { return gateway.metric("kvist_gateway_worker_looks_total"); };
  a_.set_script(FakeWorker::answer_of(500, "{}"));
  a_.set_health(503);
  const double before = looks();
  EXPECT_EQ(gateway.chat(chat_body("x")).status, 500);
  EXPECT_TRUE(await([&] { return gateway.metric("kvist_gateway_worker_healthy") == 0; }));
  EXPECT_TRUE(await([&] { return looks() > before; })) << "the next look would have come in an hour";
}

TEST_F(ServiceTest, AnAnsweredRequestReplacesAHealthCheck) {
  auto spec = gateway_spec({&a_});
  spec.workers[0].kv_events.clear();  // its events might raise doubt
  spec.workers[0].kv_replay.clear();
  spec.health_interval = std::chrono::milliseconds(20);
  const RunningGateway gateway(std::move(spec));
  const auto more_scrapes = [&] { return a_.gets("/metrics") - a_.gets("/health"); };
  const int before = more_scrapes();
  for (int i = 1; i <= 5; ++i) {
    EXPECT_EQ(gateway.chat(chat_body("x")).status, 200);
    EXPECT_TRUE(await([&] { return more_scrapes() >= before + i; })) << "a look without a question for health";
  }
}

TEST_F(ServiceTest, AnEventStreamThatIsNoLongerWholeRaisesDoubt) {
  const RunningGateway gateway(gateway_spec({&a_}));
  ASSERT_TRUE(await([&] { return gateway.metric("kvist_gateway_kv_index_exact") == 1; }));
  ASSERT_TRUE(await([&] { return a_.gets("/metrics") == a_.gets("/health"); }));
  const int before = a_.gets("/health");
  a_.publisher().publish("this is not msgpack");
  EXPECT_TRUE(await([&] { return a_.gets("/health") > before; })) << "the next look would have come in an hour";
}

TEST_F(ServiceTest, QueueingAtAWorkerOfUnknownSlotsIsCheckedOften) {
  a_.set_metrics("vllm:num_requests_running 3\nvllm:num_requests_waiting 2\n");
  auto spec = gateway_spec({&a_});
  spec.doubt_interval = std::chrono::milliseconds(20);
  const RunningGateway gateway(std::move(spec));
  EXPECT_TRUE(await([&] { return gateway.metric("kvist_gateway_worker_batch_slots", "source", "inferred") == 3; }));
}

TEST_F(ServiceTest, IsHealthyWhileAnyWorkerIs) {
  a_.set_health(503);
  b_.set_health(503);
  auto spec = gateway_spec({&a_, &b_});
  spec.health_interval = std::chrono::milliseconds(20);
  const RunningGateway gateway(std::move(spec), /*await_workers=*/false);
  const auto unhealthy = gateway.get("/health");
  EXPECT_EQ(unhealthy.status, 503);
  EXPECT_EQ(unhealthy.headers.find("Retry-After"), "1");
  const auto refused = gateway.chat(chat_body("x"));
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.headers.find("Retry-After"), "1");
  EXPECT_EQ(gateway.outcomes("no_worker"), 1);
  b_.set_health(200);
  ASSERT_TRUE(await([&] { return gateway.get("/health").status == 200; }));
  EXPECT_EQ(gateway.chat(chat_body("x")).headers.find("x-kvist-worker"), "b");
  b_.set_health(500);
  ASSERT_TRUE(await([&] { return gateway.get("/health").status == 503; }));
}

TEST_F(ServiceTest, SwitchesTheModeAtRunTime) {
  const RunningGateway gateway(gateway_spec({&a_, &b_}));
  EXPECT_EQ(mode_of(gateway), R"({"mode":"round_robin"})");
  EXPECT_EQ(gateway.call("PUT", "/admin/router_mode", R"({"mode":"kv"})").body, R"({"mode":"kv"})");
  EXPECT_EQ(mode_of(gateway), R"({"mode":"kv"})");
  EXPECT_EQ(gateway.call("POST", "/admin/router_mode", R"({ "mode" : "round-robin" })").body,
            R"({"mode":"round_robin"})");
  for (const char* body : {R"({"mode":"fastest"})", R"({"mode":"clairvoyant"})", R"({"mod":"kv"})",
                           R"({"mode":"kv","x":1})", "", "[1]", "{", R"({"mode":{}})"}) {
    const auto refused = gateway.call("PUT", "/admin/router_mode", body);
    EXPECT_EQ(refused.status, 400) << body;
    EXPECT_THAT(refused.body, HasSubstr("\"error\"")) << body;
  }
  const auto listed = gateway.call("PUT", "/admin/router_mode", R"({"mode":"fastest"})");
  EXPECT_THAT(listed.body, HasSubstr("smetric, preble\"")) << "clairvoyant is no gateway's";
  EXPECT_EQ(mode_of(gateway), R"({"mode":"round_robin"})");
  EXPECT_EQ(gateway.metric("kvist_gateway_router_mode", "mode", "round_robin"), 1);
  EXPECT_EQ(gateway.metric("kvist_gateway_router_mode", "mode", "kv"), 0);
}

TEST_F(ServiceTest, RoutesToTheWorkerThatCachesThePromptAndPredictsHowMuch) {
  auto spec = gateway_spec({&a_, &b_});
  spec.mode = spec::RoutingMode::kRoundRobin;
  const RunningGateway gateway(std::move(spec));
  const std::string prompt(10 * kBlockSize + 3, 'p');
  b_.set_script(FakeWorker::stream_of({kRoleEvent, text_event("hi"), kDoneEvent}));  // no usage contradicts the events
  b_.publisher().publish(stored_batch(prompt));
  ASSERT_TRUE(await([&] { return gateway.metric("kvist_gateway_kv_index_blocks", "worker", "b") == 10; }))
      << "the index is fed in every mode";
  gateway.call("PUT", "/admin/router_mode", R"({"mode":"kv"})");
  const auto response = gateway.call("POST", "/v1/completions", completion_body(prompt));
  EXPECT_EQ(response.headers.find("x-kvist-worker"), "b");
  EXPECT_EQ(response.headers.find("x-kvist-predicted-cached-tokens"), std::to_string(10 * kBlockSize));
  EXPECT_EQ(gateway.metric("kvist_gateway_routing_decisions_total", "mode", "kv"), 1);
  EXPECT_EQ(gateway.metric("kvist_gateway_kv_index_exact", "worker", "b"), 1);
}

TEST_F(ServiceTest, KeepsASessionOnItsWorker) {
  auto spec = gateway_spec({&a_, &b_});
  spec.mode = spec::RoutingMode::kSession;
  const RunningGateway gateway(std::move(spec));
  const auto worker_of = [&](const std::string& header, const std::string& fields) {
    net::Headers headers;
    if (!header.empty()) headers.add("X-Session-ID", header);
    return std::string(*gateway.chat(chat_body("Hello", fields), headers).headers.find("x-kvist-worker"));
  };
  std::set<std::string> used;
  for (int i = 0; i < 20; ++i) {
    const std::string session = "session-" + std::to_string(i);
    const std::string worker = worker_of(session, R"("stream":true)");
    EXPECT_EQ(worker_of(session, R"("stream":true,"user":"somebody")"), worker) << "the header wins";
    EXPECT_EQ(worker_of("", R"("stream":true,"user":")" + session + '"'), worker);
    EXPECT_EQ(worker_of("", R"("stream":true,"user":"somebody","prompt_cache_key":")" + session + '"'), worker);
    used.insert(worker);
  }
  EXPECT_EQ(used.size(), 2U);
}

TEST_F(ServiceTest, ExplainsItsDecisions) {
  auto spec = gateway_spec({&a_, &b_});
  spec.mode = spec::RoutingMode::kLeastLoaded;
  const RunningGateway gateway(std::move(spec));
  for (const char* id : {"first", "second=&", "third"}) {
    net::Headers headers;
    headers.add("X-Request-Id", id);
    (void)gateway.chat(chat_body("Hello"), headers);
  }
  ASSERT_TRUE(gateway.await_idle());
  const auto all = routing::read_decisions(gateway.call("GET", "/admin/decisions", "").body);
  ASSERT_TRUE(all) << all.error().message;
  ASSERT_EQ(all->decisions.size(), 3U);
  EXPECT_THAT(all->worker_names, ElementsAre("a", "b"));
  const routing::DecisionRecord& newest = all->decisions.front();
  EXPECT_EQ(newest.name, "third");
  EXPECT_EQ(newest.mode, spec::RoutingMode::kLeastLoaded);
  EXPECT_EQ(newest.candidates.size(), 2U);
  EXPECT_EQ(newest.after.state, routing::AttemptState::kCompleted);
  EXPECT_EQ(newest.after.cached_tokens, 32U);
  EXPECT_TRUE(newest.after.ttft.has_value());
  EXPECT_EQ(newest.after.output_tokens, 1U);
  const auto one =
      routing::read_decisions(gateway.call("GET", "/admin/decisions?limit=5&request=second%3D%26", "").body);
  ASSERT_TRUE(one) << one.error().message;
  ASSERT_EQ(one->decisions.size(), 1U);
  EXPECT_EQ(one->decisions[0].name, "second=&");
  EXPECT_EQ(routing::read_decisions(gateway.call("GET", "/admin/decisions?limit=2", "").body)->decisions.size(), 2U);
  for (const char* query : {"limit=0", "limit=513", "limit=x", "limits=1"}) {
    EXPECT_EQ(gateway.call("GET", std::string("/admin/decisions?") + query, "").status, 400) << query;
  }
}

TEST_F(ServiceTest, EventsPublishedBeforeTheGatewayStartedAreReplayed) {
  const std::string prompt(5 * kBlockSize, 'p');
  a_.publisher().publish(stored_batch(prompt));
  const RunningGateway gateway(gateway_spec({&a_}));
  EXPECT_TRUE(await([&] { return gateway.metric("kvist_gateway_kv_index_blocks", "worker", "a") == 5; }));
  EXPECT_TRUE(await([&] { return gateway.metric("kvist_gateway_kv_index_exact", "worker", "a") == 1; }));
}

TEST_F(ServiceTest, UnusableEventsAreCountedInTheMetrics) {
  const RunningGateway gateway(gateway_spec({&a_}));
  ASSERT_TRUE(await([&] { return gateway.metric("kvist_gateway_kv_index_exact") == 1; }));
  a_.publisher().publish(stored_batch(std::string(64, 'x'), 2 * kBlockSize));
  EXPECT_TRUE(
      await([&] { return gateway.metric("kvist_gateway_kv_events_refused_total", "reason", "block_size") == 1; }));
  a_.publisher().publish("this is not msgpack");
  EXPECT_TRUE(await([&] { return gateway.metric("kvist_gateway_kv_undecodable_batches_total") == 1; }));
  EXPECT_EQ(gateway.metric("kvist_gateway_kv_index_blocks"), 0);
  EXPECT_EQ(gateway.metric("kvist_gateway_kv_index_exact"), 0);
}

TEST_F(ServiceTest, SaysHowWellEachWorkersCacheIsKnown) {
  auto spec = gateway_spec({&a_, &b_});
  spec.workers[1].kv_events.clear();
  spec.workers[1].kv_replay.clear();
  const RunningGateway gateway(std::move(spec));
  const auto level = [&](std::string_view worker) {
    const std::string page = gateway.get("/metrics").body;
    for (const std::string_view name : {"none", "predicted", "exact"}) {
      const auto line = fmt::format("kvist_gateway_cache_trust{{worker=\"{}\",level=\"{}\"}} 1", worker, name);
      const auto turned = fmt::format("kvist_gateway_cache_trust{{level=\"{}\",worker=\"{}\"}} 1", name, worker);
      if (page.contains(line) || page.contains(turned)) return std::string(name);
    }
    return std::string();
  };
  ASSERT_TRUE(await([&] { return level("a") == "exact"; }));
  EXPECT_EQ(level("b"), "predicted") << "no events: by what is routed there";
  a_.publisher().publish("this is not msgpack");
  EXPECT_TRUE(await([&] { return level("a") == "predicted"; })) << "at the moment it happens";
  EXPECT_THAT(gateway.get("/admin/status").body, HasSubstr(R"("cache":{"trust":"predicted")"));
}

TEST_F(ServiceTest, OnlyEventsThatAreConfiguredCanStop) {
  auto spec = gateway_spec({&a_, &b_});
  spec.workers[1].kv_events.clear();
  spec.workers[1].kv_replay.clear();
  const RunningGateway gateway(std::move(spec));
  for (FakeWorker* const worker : {&a_, &b_})
    worker->set_script(
        FakeWorker::stream_of({kRoleEvent, text_event("a"),
                               "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":500,"
                               "\"completion_tokens\":1,\"prompt_tokens_details\":{\"cached_tokens\":0}}}\n\n",
                               kDoneEvent}));
  const auto silent = [&](std::string_view worker) {
    return gateway.metric("kvist_gateway_cache_events_silent", "worker", worker) == 1;
  };
  int prompts = 0;
  const auto ask = [&] { (void)gateway.chat(chat_body(std::string(5 * kBlockSize, 'x') + std::to_string(++prompts))); };
  // Each worker stores blocks all the time, and neither tells.
  ASSERT_TRUE(await([&] { return ask(), silent("a"); }));
  const std::size_t had = b_.posts().size();
  EXPECT_GT(had, 1U);
  ASSERT_TRUE(await([&] { return ask(), b_.posts().size() > 2 * had; }));
  EXPECT_FALSE(silent("b"));
  EXPECT_THAT(gateway.get("/admin/status").body, HasSubstr(R"("events_silent":true)"));
}

TEST_F(ServiceTest, ConfiguredLimitsWinOverReportedOnes) {
  a_.set_metrics("vllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"10\"} 1\nkvist_worker_max_batch_size 64\n");
  auto spec = gateway_spec({&a_});
  spec.workers[0].limits.max_batch_size = 12;
  const RunningGateway gateway(std::move(spec));
  EXPECT_TRUE(await([&] { return gateway.metric("kvist_gateway_worker_kv_blocks") == 10; }));
  EXPECT_EQ(gateway.metric("kvist_gateway_worker_batch_slots", "source", "configured"), 12);
}

TEST_F(ServiceTest, ConfiguredKvBlocksAreOfTheGatewaysSize) {
  for (FakeWorker* const worker : {&a_, &b_})
    worker->set_metrics("vllm:cache_config_info{block_size=\"64\",num_gpu_blocks=\"10\"} 1\n");
  auto spec = gateway_spec({&a_, &b_});
  spec.workers[0].limits.kv_blocks = 30;
  const RunningGateway gateway(std::move(spec));
  EXPECT_TRUE(await([&] { return gateway.metric("kvist_gateway_worker_block_size_mismatch") == 2; }));
  (void)gateway.chat(chat_body("Hello"));
  const auto decisions = routing::read_decisions(gateway.get("/admin/decisions").body);
  ASSERT_TRUE(decisions) << decisions.error().message;
  const auto& candidates = decisions->decisions.at(0).candidates;
  EXPECT_EQ(candidates.at(0).limits.kv_blocks, 30U);
  EXPECT_EQ(candidates.at(1).limits.kv_blocks, 10U * 64 / kBlockSize) << "as reported, converted";
}

TEST_F(ServiceTest, RequestsWithoutAnAnswerLeaveAStalledWorker) {
  a_.set_script(a_.silence());
  b_.set_script(b_.silence());
  auto spec = gateway_spec({&a_, &b_});
  spec.silence_timeout = std::chrono::milliseconds(200);  // the workers answer health checks, so it takes longer
  const RunningGateway gateway(std::move(spec));
  std::thread client([&] {
    const auto response = gateway.chat(chat_body("Hello"));
    EXPECT_EQ(response.status, 200);
  });
  const auto posts = [](const FakeWorker& worker) { return worker.posts().size(); };
  ASSERT_TRUE(await([&] { return posts(a_) + posts(b_) == 1; }));
  FakeWorker& other = posts(a_) == 1 ? b_ : a_;
  other.set_script(FakeWorker::stream_of({kRoleEvent, text_event("hi"), kUsageEvent, kDoneEvent}));
  EXPECT_TRUE(await([&] { return posts(other) == 1; }));
  client.join();
  EXPECT_EQ(gateway.metric("kvist_gateway_worker_stalls_total"), 1);
  EXPECT_TRUE(gateway.await_idle());
}

TEST_F(ServiceTest, AWorkerWithAnotherBlockSizeIsReported) {
  a_.set_metrics("vllm:cache_config_info{block_size=\"64\",num_gpu_blocks=\"10\"} 1\n");
  const RunningGateway gateway(gateway_spec({&a_}));
  EXPECT_TRUE(await([&] { return gateway.metric("kvist_gateway_worker_block_size_mismatch") == 1; }));
  EXPECT_THAT(gateway.get("/admin/status").body, HasSubstr("\"block_size_mismatch\":true"));
}

TEST_F(ServiceTest, StatusHasModeLoadAndWorkers) {
  a_.set_metrics("vllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"10\"} 1\nvllm:num_requests_running 2\n");
  const RunningGateway gateway(gateway_spec({&a_, &b_}));
  ASSERT_TRUE(await([&] { return gateway.get("/admin/status").body.contains("\"running\":2"); }));
  const std::string status = gateway.get("/admin/status").body;
  EXPECT_THAT(status, HasSubstr("\"mode\":\"round_robin\""));
  EXPECT_THAT(status, HasSubstr("\"in_flight\":0"));
  EXPECT_THAT(status, HasSubstr("\"name\":\"a\""));
  EXPECT_THAT(status, HasSubstr("\"healthy\":true"));
  EXPECT_THAT(status, HasSubstr("\"indexed_blocks\":0"));
  EXPECT_THAT(status, HasSubstr("\"index_exact\":"));
  EXPECT_THAT(status, HasSubstr("\"kv_blocks\":10"));
}

TEST_F(ServiceTest, RefusesSettingsThatCannotWork) {
  net::EventLoop loop;
  const auto message = [&](spec::GatewaySpec spec) {
    const auto service = Service::create(loop, std::move(spec));
    return service ? std::string("created") : service.error().message;
  };
  EXPECT_THAT(message(gateway_spec({})), HasSubstr("at least one worker"));
  EXPECT_THAT(message(gateway_spec({&a_, &a_})), HasSubstr("two workers are called \"a\""));
  auto spec = gateway_spec({&a_});
  spec.workers[0].url = "127.0.0.1:80";
  EXPECT_THAT(message(spec), HasSubstr("http://host:port"));
}

TEST_F(ServiceTest, TakesItsModeFromTheEnvironment) {
  net::EventLoop loop;
  ::setenv("DYN_ROUTER_MODE", "sideways", 1);
  const auto service = Service::create(loop, gateway_spec({&a_}));
  ::unsetenv("DYN_ROUTER_MODE");
  ASSERT_FALSE(service);
  EXPECT_THAT(service.error().message, HasSubstr("DYN_ROUTER_MODE"));
}

}  // namespace
}  // namespace kvist::gateway::service_test

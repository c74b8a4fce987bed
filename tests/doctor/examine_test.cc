#include "kvist/doctor/examine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>

namespace kvist::doctor::examine_test {
namespace {

using gateway::TokenizerMatch;
using testing::HasSubstr;

/// A file of a gateway before one good worker.
Snapshot healthy() {
  Snapshot snapshot{.model = "m", .block_size = 16, .uses_events = true, .mode = "kv", .connections = 1'000};
  snapshot.machine = {.descriptors = 1'000'000, .somaxconn = 4'096, .local_ports = 28'232};
  snapshot.ports.push_back({.what = "gateway.http", .address = "127.0.0.1:8000"});
  WorkerFacts worker{.name = "w", .url = "http://w:1", .health_status = 200, .models_status = 200};
  worker.models = {"m"};
  worker.metrics_status = 200;
  worker.engine = {.kind = EngineFacts::Kind::kKvist, .block_size = 16, .prefix_caching = true};
  worker.events.address = "tcp://w:2";
  worker.replay.address = "tcp://w:3";
  worker.tokenizer = TokenizerMatch::kSame;
  snapshot.workers.push_back(worker);
  return snapshot;
}

struct Case {
  const char* id;
  Severity severity;
  std::function<void(Snapshot&)> spoil;
};

TEST(Examine, AGoodFileHasNoFindings) {
  EXPECT_TRUE(examine(healthy()).empty());
}

TEST(Examine, EachFaultIsOneFinding) {
  const std::vector<Case> cases = {
      {"port_in_use", Severity::kError, [](Snapshot& s) { s.ports[0].problem = "Address already in use"; }},
      {"gateway_runs", Severity::kInfo,
       [](Snapshot& s) {
         s.ports[0].problem = "Address already in use";
         s.ports[0].by_gateway = true;
       }},
      {"dns_fails", Severity::kError, [](Snapshot& s) { s.dns.push_back({.name = "n", .problem = "no such name"}); }},
      {"dns_many", Severity::kInfo,
       [](Snapshot& s) { s.dns.push_back({.name = "n", .addresses = 65, .unexamined = 1}); }},
      {"api_server_unreachable", Severity::kError,
       [](Snapshot& s) { s.clusters.push_back({.group = "g", .problem = "Connection refused"}); }},
      {"api_forbidden", Severity::kError,
       [](Snapshot& s) { s.clusters.push_back({.group = "g", .answers = true, .forbidden = {"watch pods"}}); }},
      {"api_fails", Severity::kError,
       [](Snapshot& s) { s.clusters.push_back({.group = "g", .answers = true, .problem = "not JSON"}); }},
      {"service_without_workers", Severity::kWarning,
       [](Snapshot& s) { s.clusters.push_back({.group = "g", .answers = true, .objects = "1 EndpointSlices"}); }},
      {"profile_unusable", Severity::kError, [](Snapshot& s) { s.profiles.emplace_back("worker", "unknown GPU"); }},
      {"file_unusable", Severity::kError, [](Snapshot& s) { s.files.emplace_back("tls.key", "k cannot be read"); }},
      {"worker_unreachable", Severity::kError, [](Snapshot& s) { s.workers[0].problem = "Connection refused"; }},
      {"worker_unhealthy", Severity::kError, [](Snapshot& s) { s.workers[0].health_status = 503; }},
      {"model_differs", Severity::kError, [](Snapshot& s) { s.workers[0].models = {"other"}; }},
      {"key_refused", Severity::kError, [](Snapshot& s) { s.workers[0].models_status = 401; }},
      {"key_refused", Severity::kInfo,
       [](Snapshot& s) {
         s.workers[0].seen = GatewayView{.state = "healthy", .events_whole = true};
         s.workers[0].models_status = 401;
       }},
      {"worker_leaves", Severity::kInfo,
       [](Snapshot& s) {
         s.workers[0].seen = GatewayView{.state = "draining", .events_whole = true};
         s.workers[0].problem = "Connection refused";
       }},
      {"no_model_list", Severity::kWarning, [](Snapshot& s) { s.workers[0].models_status = 404; }},
      {"block_size_differs", Severity::kError, [](Snapshot& s) { s.workers[0].engine.block_size = 32; }},
      {"block_size_differs", Severity::kWarning,
       [](Snapshot& s) {
         s.uses_events = false;
         s.workers[0].engine.block_size = 32;
       }},
      {"prefix_caching_off", Severity::kError, [](Snapshot& s) { s.workers[0].engine.prefix_caching = false; }},
      {"engine_unknown", Severity::kInfo, [](Snapshot& s) { s.workers[0].engine = {}; }},
      {"tokenizer_differs", Severity::kError, [](Snapshot& s) { s.workers[0].tokenizer = TokenizerMatch::kDifferent; }},
      {"tokenizer_unknown", Severity::kInfo, [](Snapshot& s) { s.workers[0].tokenizer = TokenizerMatch::kNotTold; }},
      {"clock_differs", Severity::kWarning, [](Snapshot& s) { s.workers[0].clock_ahead_s = -60; }},
      {"no_events", Severity::kWarning, [](Snapshot& s) { s.workers[0].events = s.workers[0].replay = {}; }},
      {"no_replay", Severity::kWarning, [](Snapshot& s) { s.workers[0].replay = {}; }},
      {"events_unreachable", Severity::kError, [](Snapshot& s) { s.workers[0].events.problem = "Connection refused"; }},
      {"events_listen", Severity::kWarning, [](Snapshot& s) { s.workers[0].events.address = "tcp://*:5557"; }},
      {"replay_refused", Severity::kError, [](Snapshot& s) { s.workers[0].replay.problem = "Connection refused"; }},
      {"few_descriptors", Severity::kWarning, [](Snapshot& s) { s.machine.descriptors = 1'024; }},
      {"small_backlog", Severity::kWarning, [](Snapshot& s) { s.machine.somaxconn = 128; }},
      {"few_local_ports", Severity::kWarning, [](Snapshot& s) { s.machine.local_ports = 100; }},
      {"context_differs", Severity::kWarning,
       [](Snapshot& s) {
         s.workers[0].max_model_len = 100;
         s.workers.push_back(s.workers[0]);
         s.workers[1].max_model_len = 200;
       }},
      {"adapters_differ", Severity::kInfo,
       [](Snapshot& s) {
         s.workers.push_back(s.workers[0]);
         s.workers[1].adapters = {"alpha"};
       }},
      {"hash_seed", Severity::kInfo,
       [](Snapshot& s) {
         s.workers[0].engine.kind = EngineFacts::Kind::kVllm;
         s.workers.push_back(s.workers[0]);
       }},
  };
  for (const Case& each : cases) {
    Snapshot snapshot = healthy();
    each.spoil(snapshot);
    const auto findings = examine(snapshot);
    ASSERT_EQ(findings.size(), 1U) << each.id << "\n" << findings_text("s", findings);
    EXPECT_EQ(findings[0].id, each.id);
    EXPECT_EQ(findings[0].severity, each.severity) << each.id;
    EXPECT_FALSE(findings[0].what.empty() || findings[0].right.empty() || findings[0].where.empty()) << each.id;
  }
}

TEST(Examine, AdaptersAreComparedAmongTheWorkersOfTheirModel) {
  Snapshot snapshot = healthy();
  snapshot.workers.push_back(snapshot.workers[0]);
  Snapshot other = snapshot;
  other.model = "n";
  for (WorkerFacts& worker : other.workers) worker.models = {"n"};
  other.workers[1].adapters = {"alpha"};
  for (WorkerFacts& worker : snapshot.workers) worker.adapters = {"beta"};
  snapshot.workers.push_back(other.workers[1]);  // by mistake
  snapshot.further.push_back(other);
  const auto findings = examine(snapshot);
  ASSERT_EQ(findings.size(), 2U) << findings_text("s", findings);
  EXPECT_EQ(findings[0].id, "model_differs");
  EXPECT_EQ(findings[1].id, "adapters_differ");
  EXPECT_EQ(findings[1].where, "fleet of n");
  EXPECT_THAT(findings[1].what, HasSubstr("of 2 workers, not all have each adapter: alpha at 1"));
}

TEST(Examine, TheWorstComesFirstAndAllOfAWorkersFaultsAreTold) {
  Snapshot snapshot = healthy();
  snapshot.machine.somaxconn = 1;
  snapshot.workers[0].engine.block_size = 64;
  snapshot.workers[0].models = {};
  const auto findings = examine(snapshot);
  ASSERT_EQ(findings.size(), 3U);
  EXPECT_TRUE(std::ranges::is_sorted(findings, std::ranges::greater(), &Finding::severity));
  EXPECT_EQ(findings.back().id, "small_backlog");
}

constexpr std::string_view kStatus = R"({"model":"m","mode":"kv","block_size":16,"workers":[
  {"name":"a","url":"http://a:1","state":"healthy","last_problem":"","index_exact":true,"tokenizer":"same",
   "cache":{"trust":"exact","events_silent":false},"model":{"match":"same"}},
  {"name":"b","url":"http://b:1","state":"ejected","last_problem":"status 500","index_exact":false,"tokenizer":"different",
   "cache":{"trust":"none","events_silent":true},"model":{"match":"other"}}]})";
constexpr std::string_view kPage =
    "kvist_gateway_kv_index_exact{worker=\"a\"} 1\nkvist_gateway_kv_gaps_total{worker=\"a\"} 2\n"
    "kvist_gateway_kv_resets_total{worker=\"a\"} 2\nprocess_open_fds 900\nprocess_max_fds 1000\n"
    "kvist_gateway_peers_connected 1\nkvist_gateway_peers_share_decisions 0\n"
    "kvist_gateway_peer_unused_messages_total{model=\"m\",reason=\"namesake\"} 7\n"
    "kvist_gateway_peer_parts_wanted{model=\"m\"} 2\n"
    "kvist_gateway_peer_parts_refused_total{model=\"m\",reason=\"other_keys\"} 1\n"
    "kvist_gateway_local_exhaustions_total 3\nkvist_gateway_record_lost_total{reason=\"disk\"} 1\n";

TEST(Snapshot, OfARunningGatewayIsWhatItsPagesSay) {
  const auto snapshot = read_gateway_facts(kStatus, kPage);
  ASSERT_TRUE(snapshot) << snapshot.error().message;
  EXPECT_TRUE(snapshot->runs && snapshot->uses_events);
  std::vector<std::string> ids;
  for (const Finding& finding : examine(*snapshot)) {
    const std::string where = finding.where + " ";
    ids.push_back(where + std::string(finding.id));
  }
  // Neither worker was asked itself, so that nothing is said of their answers but that there were none.
  for (const char* wanted :
       {"worker a replay_refused", "worker b worker_ejected", "worker b events_silent", "worker b tokenizer_differs",
        "gateway few_descriptors", "gateway sockets_exhausted", "gateway lines_lost", "gateway peers_decide_alone",
        "gateway peers_same_name", "gateway peers_differ", "gateway peers_lack_caches"}) {
    EXPECT_THAT(ids, testing::Contains(wanted));
  }
}

TEST(Snapshot, WhatIsNoGatewayIsAnError) {
  EXPECT_FALSE(read_gateway_facts("{}", ""));
  EXPECT_FALSE(read_gateway_facts("no JSON", ""));
  EXPECT_FALSE(read_gateway_facts(kStatus, "no page {"));
}

TEST(EngineFacts, AreReadFromThePagesOfEngines) {
  const auto vllm = read_engine_facts(
      "vllm:num_requests_running{model_name=\"m\"} 0\n"
      "vllm:cache_config_info{block_size=\"16\",enable_prefix_caching=\"False\"} 1\n");
  ASSERT_TRUE(vllm);
  EXPECT_EQ(vllm->kind, EngineFacts::Kind::kVllm);
  EXPECT_EQ(vllm->block_size, 16U);
  EXPECT_EQ(vllm->prefix_caching, false);
  const auto odd =
      read_engine_facts("kvist_build_info{version=\"1\"} 1\nvllm:cache_config_info{block_size=\"99999999999\"} 1\n");
  ASSERT_TRUE(odd);
  EXPECT_EQ(odd->kind, EngineFacts::Kind::kKvist);
  EXPECT_EQ(odd->block_size, 0U);
  EXPECT_FALSE(odd->prefix_caching);
}

TEST(Findings, AreWrittenAsTextAndJson) {
  const std::vector<Finding> findings = {{Severity::kError, "id", "worker\x1b[2J w", "what", "right"}};
  EXPECT_EQ(findings_text("f.yaml", findings), "error [id] worker [2J w: what\n    right\nf.yaml: 1 error, 0 warnings");
  EXPECT_THAT(findings_json("f.yaml", findings), HasSubstr("\"severity\": \"error\""));
}

}  // namespace
}  // namespace kvist::doctor::examine_test

// Settings of a gateway whose fleet changes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

#include "kvist/spec/deployment.h"
#include "spec/parsed.h"

namespace kvist::spec::changing_fleet_test {
namespace {

using testing::HasSubstr;

TEST(ReadGateway, TakesWorkersBehindDnsNames) {
  const auto read =
      read_gateway(parsed("worker_tls: {ca: ca.pem}\n"
                          "workers:\n"
                          "- {name: a, url: 'http://h:1'}\n"
                          "- {name: pool, dns: {name: llm.example, port: 8000, interval: 5 s}, kv_events_port: 5557}\n"
                          "- {dns: {name: _http._tcp.llm.example, record: srv, https: true, server: '10.0.0.1:53'}}\n"),
                   "/etc/kvist");
  ASSERT_TRUE(read) << message(read);
  EXPECT_EQ(read->workers.size(), 1U);
  ASSERT_EQ(read->worker_groups.size(), 2U);
  const WorkerGroupSpec& pool = read->worker_groups[0];
  EXPECT_EQ(pool.name, "pool");
  EXPECT_EQ(pool.port, 8'000);
  EXPECT_EQ(pool.kv_events_port, 5'557);
  EXPECT_EQ(pool.interval, std::chrono::seconds(5));
  const WorkerGroupSpec& services = read->worker_groups[1];
  EXPECT_EQ(services.name, "group-1");
  EXPECT_TRUE(services.services);
  EXPECT_EQ(services.tls.ca, "/etc/kvist/ca.pem");
  EXPECT_EQ(worker_places(*read), 1 + 16 + 2 * 64U);
}

TEST(ReadGateway, TakesWorkersBehindServicesOfKubernetes) {
  const auto read = read_gateway(
      parsed("workers:\n"
             "- {name: pool, kubernetes: {service: vllm, namespace: llm, port: http, pods: app=vllm, role: decode}}\n"
             "- {kubernetes: {service: sglang, port: 30000, kubeconfig: admin.conf}, kv_events_port: 5557}\n"),
      "/etc/kvist");
  ASSERT_TRUE(read) << message(read);
  ASSERT_EQ(read->worker_groups.size(), 2U);
  const WorkerGroupSpec& pool = read->worker_groups[0];
  ASSERT_TRUE(pool.kubernetes);
  EXPECT_EQ(*pool.kubernetes,
            (KubernetesSourceSpec{
                .service = "vllm", .name_space = "llm", .port_name = "http", .pods = "app=vllm", .role = "decode"}));
  EXPECT_EQ(pool.port, 0);
  const WorkerGroupSpec& other = read->worker_groups[1];
  EXPECT_EQ(other.name, "group-1");
  EXPECT_EQ(other.port, 30'000);
  EXPECT_EQ(other.kubernetes->kubeconfig, "/etc/kvist/admin.conf");
  EXPECT_EQ(other.kv_events_port, 5'557);
  const auto of_pool = read_gateway(parsed("workers: [{kubernetes: {inference_pool: llama, role: decode}}]\n"));
  ASSERT_TRUE(of_pool) << message(of_pool);
  EXPECT_EQ(*of_pool->worker_groups.at(0).kubernetes,
            (KubernetesSourceSpec{.inference_pool = "llama", .role = "decode"}));
}

TEST(ReadGateway, RefusesServicesOfKubernetesThatCannotBe) {
  const auto refusal = [](const std::string& group) {
    return message(read_gateway(parsed("workers:\n- " + group + "\n")));
  };
  EXPECT_THAT(refusal("{kubernetes: {namespace: x}}"), HasSubstr("either service or inference_pool"));
  EXPECT_THAT(refusal("{kubernetes: {service: x, inference_pool: y}}"), HasSubstr("either service or inference_pool"));
  EXPECT_THAT(refusal("{kubernetes: {inference_pool: y, pods: app=y}}"), HasSubstr("the pool's own selector"));
  EXPECT_THAT(refusal("{kubernetes: {inference_pool: y, port: http}}"), HasSubstr("a pool's ports have no names"));
  EXPECT_THAT(refusal("{kubernetes: {service: a/b}}"), HasSubstr("service"));
  EXPECT_THAT(refusal("{kubernetes: {service: x, port: 0}}"), HasSubstr("a port's number or its name"));
  EXPECT_THAT(refusal("{kubernetes: {service: x, role: decode}}"), HasSubstr("role without pods"));
  EXPECT_THAT(refusal("{kubernetes: {service: x}, dns: {name: x, port: 1}}"), HasSubstr("one source"));
  EXPECT_THAT(refusal("{kubernetes: {service: x}, url: 'http://h:1'}"), HasSubstr("url"));
}

TEST(ReadGateway, RefusesWorkersBehindDnsNamesThatCannotBe) {
  const auto refusal = [](const std::string& group) {
    return message(read_gateway(parsed("workers:\n- " + group + "\n")));
  };
  EXPECT_THAT(refusal("{dns: {port: 8000}}"), HasSubstr("key \"name\" is missing"));
  EXPECT_THAT(refusal("{dns: {name: x}}"), HasSubstr("key \"port\" is missing"));
  EXPECT_THAT(refusal("{dns: {name: x, record: srv, port: 1}}"), HasSubstr("SRV records have the ports"));
  EXPECT_THAT(refusal("{dns: {name: x, record: mx, port: 1}}"), HasSubstr("expected a or srv"));
  EXPECT_THAT(refusal("{dns: {name: x, port: 1}, url: 'http://h:1'}"), HasSubstr("url"));
  EXPECT_THAT(refusal("{dns: {name: x, port: 1}, kv_replay_port: 2}"), HasSubstr("without kv_events_port"));
}

TEST(ReadGateway, HasPlacesForWorkersThatCome) {
  EXPECT_EQ(worker_places(*read_gateway(parsed("workers: [{url: 'http://h:1'}]\n"))), 17U);
  EXPECT_EQ(worker_places(*read_gateway(parsed("max_workers: 3\nworkers: [{url: 'http://h:1'}]\n"))), 3U);
  EXPECT_THAT(message(read_gateway(parsed("max_workers: 1\nworkers: [{url: 'http://h:1'}, {url: 'http://h:2'}]\n"))),
              HasSubstr("1 places for 2 workers"));
}

TEST(ReadGateway, TakesFurtherNamesOfTheModel) {
  const auto read = read_gateway(parsed("model: m\nmodel_aliases: [llama, gpt]\n"));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->model_aliases, (std::vector<std::string>{"llama", "gpt"}));
  EXPECT_THAT(message(read_gateway(parsed("model: m\nmodel_aliases: [m]\n"))),
              HasSubstr("is the model's name already"));
}

}  // namespace
}  // namespace kvist::spec::changing_fleet_test

// Endpoints and labels as workers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kubernetes/objects_sample.h"
#include "kvist/kubernetes/worker_mapping.h"

namespace kvist::kubernetes::worker_mapping_test {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

EndpointSlice slice(const std::string& json) {
  JsonDocument document;
  const auto object = document.parse_object(json);
  auto read = read_endpoint_slice(*object);
  EXPECT_TRUE(read) << (read ? "" : read.error().message);
  return read ? *std::move(read) : EndpointSlice{};
}

PodMetadata pod(const std::string& metadata) {
  JsonDocument document;
  const auto object = document.parse_object(R"({"metadata":)" + metadata + "}");
  auto read = read_pod_metadata(*object);
  EXPECT_TRUE(read) << (read ? "" : read.error().message);
  return read ? *std::move(read) : PodMetadata{};
}

std::vector<std::string> names(const std::vector<Worker>& workers) {
  std::vector<std::string> names;
  for (const Worker& worker : workers) names.push_back(worker.name);
  return names;
}

const WorkerSelection kAny{.group = "pool", .model = "llama"};

TEST(WorkersOf, TakesReadyEndpointsWithTheSlicesPorts) {
  const SlicesByKey slices{{"ns/a", slice(sample_slice("a", 1,
                                                       {{"p-1", "10.0.0.1"},
                                                        {"p-0", "10.0.0.9"},
                                                        {"unready", "10.0.0.2", false, false},
                                                        {"ends", "10.0.0.3", true, true}}))}};
  EXPECT_THAT(workers_of(slices, {}, kAny),
              ElementsAre(Worker{.name = "p-0", .host = "10.0.0.9", .port = 8'000, .kv_events_port = 5'557},
                          Worker{.name = "p-1", .host = "10.0.0.1", .port = 8'000, .kv_events_port = 5'557}));
}

TEST(WorkersOf, AnAbsentConditionMeansReady) {
  const SlicesByKey slices{
      {"ns/a", slice(R"({"addressType":"IPv4","ports":[{"port":80}],"endpoints":[{"addresses":["10.0.0.1"]}]})")}};
  EXPECT_THAT(names(workers_of(slices, {}, kAny)), ElementsAre("pool-10.0.0.1-80"));
}

TEST(WorkersOf, OnePodIsOneWorker) {
  const SlicesByKey slices{
      {"ns/a", slice(sample_slice("a", 1, {{"p", "10.0.0.1", false, false}}))},
      {"ns/b", slice(sample_slice("b", 1, {{"p", "fd00::1"}}, "IPv6"))},
      {"ns/c", slice(sample_slice("c", 1, {{"p", "10.0.0.1"}}))},
  };
  const auto workers = workers_of(slices, {}, kAny);
  ASSERT_EQ(workers.size(), 1U);
  EXPECT_EQ(workers[0].host, "10.0.0.1") << "the family of IPv4, though the other one comes first";
}

TEST(WorkersOf, APodSaysItsModelRoleAndPorts) {
  const SlicesByKey slices{
      {"ns/a", slice(sample_slice("a", 1, {{"p-0", "10.0.0.1"}, {"p-1", "10.0.0.2"}, {"p-2", "10.0.0.3"}}))}};
  WorkerSelection selection = kAny;
  selection.watches_pods = true;
  selection.role = "decode";
  EXPECT_THAT(workers_of(slices, {}, selection), IsEmpty()) << "of no pod anything is known yet";
  const PodsByKey pods{
      {"ns/p-0", pod(R"({"labels":{"app":"x","kvist.io/role":"decode","kvist.io/kv-events-port":"6000",)"
                     R"("kvist.io/kv-replay-port":"6001"},"annotations":{"kvist.io/model":"llama"}})")},
      {"ns/p-1", pod(R"({"annotations":{"kvist.io/model":"org/another"}})")},
      {"ns/p-2", pod(R"({"labels":{"kvist.io/role":"prefill"}})")},
      {"other/p-1", pod(R"({"annotations":{"kvist.io/model":"llama"}})")},
  };
  EXPECT_THAT(workers_of(slices, pods, selection), ElementsAre(Worker{.name = "p-0",
                                                                      .host = "10.0.0.1",
                                                                      .port = 8'000,
                                                                      .model = "llama",
                                                                      .role = "decode",
                                                                      .kv_events_port = 6'000,
                                                                      .kv_replay_port = 6'001}));
}

TEST(WorkersOf, PortsAreTheSelectionsOrCalledByName) {
  const SlicesByKey slices{{"ns/a", slice(sample_slice("a", 1, {{"p", "10.0.0.1"}}))}};
  WorkerSelection selection = kAny;
  selection.port = 9'000;
  EXPECT_EQ(workers_of(slices, {}, selection).at(0).port, 9'000);
  selection = kAny;
  selection.port_name = "kv-events";
  EXPECT_EQ(workers_of(slices, {}, selection).at(0).port, 5'557);
  selection.port_name = "grpc";
  EXPECT_THAT(workers_of(slices, {}, selection), IsEmpty());
}

TEST(ReadEndpointSlice, RefusesWhatCouldNotBeReached) {
  const auto problem = [](const std::string& json) {
    JsonDocument document;
    const auto read = read_endpoint_slice(*document.parse_object(json));
    return read ? std::string() : read.error().message;
  };
  EXPECT_THAT(problem(R"({"addressType":"IPv4","endpoints":[{"addresses":["1.1.1.1/x"]}]})"),
              testing::HasSubstr("endpoints[0].addresses[0]: expected an IP address"));
  EXPECT_THAT(problem(R"({"addressType":"IPv4","endpoints":[{"addresses":[]}]})"), testing::HasSubstr("at least one"));
  EXPECT_THAT(problem(R"({"endpoints":[]})"), testing::HasSubstr("addressType"));
  EXPECT_THAT(problem(R"({"addressType":"IPv4","ports":[{"port":70000}]})"), testing::HasSubstr("ports[0].port"));
}

}  // namespace
}  // namespace kvist::kubernetes::worker_mapping_test

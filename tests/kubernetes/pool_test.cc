// InferencePools and their pods as workers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kubernetes/objects_sample.h"
#include "kvist/kubernetes/worker_mapping.h"

namespace kvist::kubernetes::pool_test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

template <class T>
Result<T> read_json(const std::string& json, Result<T> (*read)(const JsonObject&)) {
  JsonDocument document;
  const auto object = document.parse_object(json);
  EXPECT_TRUE(object) << json;
  return read(*object);
}

InferencePool pool(const std::string& ports = R"({"number":8000})") {
  auto read = read_json(sample_pool(R"("app":"vllm","tier":"gpu")", ports), read_inference_pool);
  EXPECT_TRUE(read) << (read ? "" : read.error().message);
  return read ? *std::move(read) : InferencePool{};
}

Pod pod(const SamplePod& sample) {
  auto read = read_json(sample_pod(sample), read_pod);
  EXPECT_TRUE(read) << (read ? "" : read.error().message);
  return read ? *std::move(read) : Pod{};
}

const WorkerSelection kAny{.group = "pool", .model = "llama", .kv_events_port = 5'557, .kv_replay_port = 5'657};

TEST(InferencePoolTest, HasASelectorAndPorts) {
  const InferencePool read = pool(R"({"number":8000},{"number":8001})");
  EXPECT_EQ(read.label_selector(), "app=vllm,tier=gpu");
  EXPECT_THAT(read.ports, ElementsAre(8'000, 8'001));
}

TEST(InferencePoolTest, RefusesWhatWouldSelectOtherPodsOrNone) {
  const auto refusal = [](const std::string& labels, const std::string& ports) {
    const auto read = read_json(sample_pool(labels, ports), read_inference_pool);
    return read ? std::string() : read.error().message;
  };
  EXPECT_THAT(refusal("", R"({"number":80})"), HasSubstr("spec.selector.matchLabels: expected at least one label"));
  EXPECT_THAT(refusal(R"("app":"a,b=c")", R"({"number":80})"), HasSubstr("matchLabels.app: expected a label"));
  EXPECT_THAT(refusal(R"("a=b":"c")", R"({"number":80})"), HasSubstr("expected a label"));
  EXPECT_THAT(refusal(R"("app":"a")", ""), HasSubstr("spec.targetPorts: expected 1 to 8 ports"));
  EXPECT_THAT(refusal(R"("app":"a")", R"({"number":0})"), HasSubstr("spec.targetPorts[0].number"));
  EXPECT_THAT(refusal(R"("app":"a")", R"({})"), HasSubstr("number"));
}

TEST(PodTest, IsReadyWhileItRunsAndSaysSo) {
  EXPECT_TRUE(pod({.name = "p", .address = "10.0.0.1"}).ready);
  EXPECT_FALSE(pod({.name = "p", .address = "10.0.0.1", .ready = "False"}).ready);
  EXPECT_FALSE(pod({.name = "p", .address = "10.0.0.1", .phase = "Failed"}).ready);
  EXPECT_TRUE(pod({.name = "p", .address = "10.0.0.1", .terminating = true}).terminating);
  EXPECT_EQ(pod({.name = "p", .address = ""}).address, "") << "before it has one";
  const auto hostile = read_json(sample_pod({.name = "p", .address = "10.0.0.1/@evil"}), read_pod);
  ASSERT_FALSE(hostile);
  EXPECT_THAT(hostile.error().message, HasSubstr("status.podIP: expected an IP address"));
}

TEST(WorkersOfAPool, AreItsReadyPods) {
  const PoolPodsByKey pods{
      {"ns/p-1", pod({.name = "p-1", .address = "10.0.0.1"})},
      {"ns/p-0", pod({.name = "p-0", .address = "fd00::1"})},
      {"ns/unready", pod({.name = "unready", .address = "10.0.0.2", .ready = "False"})},
      {"ns/ends", pod({.name = "ends", .address = "10.0.0.3", .terminating = true})},
      {"ns/new", pod({.name = "new", .address = ""})},
      {"ns/of-another", pod({.name = "of-another",
                             .address = "10.0.0.4",
                             .metadata = R"("annotations":{"kvist.io/model":"org/another"},)"})},
  };
  EXPECT_THAT(
      workers_of(pool(), pods, kAny),
      ElementsAre(
          Worker{.name = "p-0", .host = "fd00::1", .port = 8'000, .kv_events_port = 5'557, .kv_replay_port = 5'657},
          Worker{.name = "p-1", .host = "10.0.0.1", .port = 8'000, .kv_events_port = 5'557, .kv_replay_port = 5'657}));
  EXPECT_THAT(workers_of(pool(), {}, kAny), IsEmpty());
}

TEST(WorkersOfAPool, AreOnePerPortWithTheEventsOfItsRank) {
  const PoolPodsByKey pods{
      {"ns/p", pod({.name = "p",
                    .address = "10.0.0.1",
                    .metadata = R"("labels":{"kvist.io/kv-events-port":"6000","kvist.io/role":"decode"},)"})}};
  const auto workers = workers_of(pool(R"({"number":8000},{"number":8100})"), pods, kAny);
  EXPECT_THAT(workers, ElementsAre(Worker{.name = "p-8000",
                                          .host = "10.0.0.1",
                                          .port = 8'000,
                                          .role = "decode",
                                          .kv_events_port = 6'000,
                                          .kv_replay_port = 5'657},
                                   Worker{.name = "p-8100",
                                          .host = "10.0.0.1",
                                          .port = 8'100,
                                          .role = "decode",
                                          .kv_events_port = 6'001,
                                          .kv_replay_port = 5'658}));
  WorkerSelection one = kAny;
  one.port = 9'000;
  one.role = "prefill";
  EXPECT_THAT(workers_of(pool(), pods, one), IsEmpty()) << "of another role";
  one.role = "decode";
  EXPECT_EQ(workers_of(pool(), pods, one).at(0).port, 9'000);
}

}  // namespace
}  // namespace kvist::kubernetes::pool_test

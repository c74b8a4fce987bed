#include "kvist/spec/sweep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "kvist/spec/files.h"
#include "spec/parsed.h"

namespace kvist::spec::sweep_test {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

constexpr const char* kSweep = R"(name: demo
deployment:
  workers: {count: 3}
workload: {seed: 7, turns_min: 2, turns_max: 4, target_rps: 2.5}
method: {warmup: 5 s, snapshots: 2, snapshot_interval: 10 s, window: 6 s, drain_timeout: 20 s, max_error_pct: 1}
modes: [round-robin, kv]
levels: [12, 24, 36]
output_directory: results
)";

std::string with_line(const std::string& text, const std::string& from, const std::string& to) {
  std::string changed = text;
  const auto at = changed.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return changed.replace(at, from.size(), to);
}

std::string error_with(const std::string& from, const std::string& to) {
  return message(read_sweep(parsed(with_line(kSweep, from, to)), "."));
}

TEST(Sweep, LevelsOfOpenArrivalsAreRatesThatMayExceedTheConversationsAtOnce) {
  const std::string open = with_line(kSweep, "target_rps: 2.5", "arrivals: bursty, arrival_variation: 3");
  const auto sweep = read_sweep(parsed(with_line(open, "[12, 24, 36]", "[60, 5000]")), ".");
  ASSERT_TRUE(sweep.has_value()) << sweep.error().message;
  EXPECT_THAT(sweep->levels, ElementsAre(60, 5000));
  EXPECT_EQ(sweep->workload.arrivals,
            (ArrivalSpec{.kind = ArrivalKind::kBursty, .variation = 3, .max_conversations = 4'096}));
  EXPECT_DOUBLE_EQ(sweep->workload.arrivals.starts_per_second(90), 1.5);
}

TEST(SweepSpecTest, ReadsTheAgentsThatDriveIt) {
  const auto with = [](const std::string& agents) {
    return read_sweep(parsed(std::string(kSweep) + "agents: " + agents), "/sweeps");
  };
  const auto sweep = with("{urls: [\"10.0.0.5:9400\", \"https://h:1\"], key_file: key, ca: ca.pem}");
  ASSERT_TRUE(sweep.has_value()) << sweep.error().message;
  EXPECT_THAT(sweep->agents.urls, ElementsAre("10.0.0.5:9400", "https://h:1"));
  EXPECT_EQ(sweep->agents.key_file, "/sweeps/key");
  EXPECT_EQ(sweep->agents.ca, "/sweeps/ca.pem");
  EXPECT_FALSE(read_sweep(parsed(kSweep), ".")->agents.are_given());
  EXPECT_THAT(message(with("{urls: []}")), HasSubstr("0 agents; want 1 to 256"));
  EXPECT_THAT(message(with("{key_file: k}")), HasSubstr("urls"));
  EXPECT_THAT(message(with("{urls: [\"h:1\", \"h:1\"]}")), HasSubstr("occurs twice"));
  EXPECT_THAT(message(with("{urls: [\"ftp://h:1\"]}")), HasSubstr("expected host:port"));
  EXPECT_THAT(message(with("{urls: [\"http://h:1/path\"]}")), HasSubstr("expected host:port"));
}

TEST(SweepSpecTest, RefusesALoadThatAgentsCannotDivide) {
  const std::string agents = "agents: {urls: [\"h:1\"]}\n";
  const auto error = [&](const std::string& from, const std::string& to) {
    return message(read_sweep(parsed(with_line(kSweep, from, to) + agents), "."));
  };
  EXPECT_THAT(error("max_error_pct: 1", "between_levels: continue"), HasSubstr("a load of its own"));
  EXPECT_THAT(error("turns_min: 2, turns_max: 4, target_rps: 2.5", "trace: {file: t.jsonl}"),
              HasSubstr("a trace is driven by one process"));
}

TEST(SweepSpecTest, ReadsAWholeSweep) {
  const auto sweep = read_sweep(parsed(kSweep), ".");
  ASSERT_TRUE(sweep.has_value()) << sweep.error().message;
  EXPECT_EQ(sweep->name, "demo");
  EXPECT_EQ(sweep->deployment.workers.size(), 3U);
  EXPECT_EQ(sweep->workload.seed, 7U);
  EXPECT_EQ(sweep->workload.turns_max, 4U);
  EXPECT_EQ(sweep->workload.target_rps, 2.5);
  EXPECT_EQ(sweep->workload.starters, WorkloadSpec{}.starters);
  EXPECT_EQ(sweep->method.window, std::chrono::seconds(6));
  EXPECT_EQ(sweep->method.max_error_pct, 1);
  EXPECT_THAT(sweep->modes, ElementsAre(RoutingMode::kRoundRobin, RoutingMode::kKv));
  EXPECT_THAT(sweep->levels, ElementsAre(12, 24, 36));
  EXPECT_EQ(sweep->output_directory, "results");
}

TEST(SweepSpecTest, ATargetOfZeroIsNoLimitOfStarts) {
  const auto sweep = read_sweep(parsed(with_line(kSweep, "target_rps: 2.5", "target_rps: 0")), ".");
  ASSERT_TRUE(sweep.has_value()) << sweep.error().message;
  EXPECT_EQ(sweep->workload.target_rps, 0);
  EXPECT_THAT(error_with("target_rps: 2.5", "target_rps: 0.0001"), HasSubstr("0 for no limit"));
  const auto by_name = read_sweep(parsed(with_line(kSweep, "target_rps: 2.5", "max_start_rate: 3.5")), ".");
  ASSERT_TRUE(by_name.has_value()) << by_name.error().message;
  EXPECT_EQ(by_name->workload.target_rps, 3.5);
  EXPECT_THAT(error_with("target_rps: 2.5", "target_rps: 2, max_start_rate: 2"), HasSubstr("give one of both"));
  EXPECT_THAT(error_with("target_rps: 2.5", "max_start_rate: 0.0001"), HasSubstr("max_start_rate"));
  EXPECT_THAT(error_with("target_rps: 2.5", "arrivals: poisson, max_start_rate: 2"), HasSubstr("starts per minute"));
}

TEST(SweepSpecTest, TheDefaultMethodIsThePublishedOne) {
  const auto sweep = read_sweep(parsed("deployment: {workers: {}}\nmodes: [kv]\nlevels: [40]\n"), ".");
  ASSERT_TRUE(sweep.has_value()) << sweep.error().message;
  EXPECT_EQ(sweep->method, MethodSpec{});
  EXPECT_EQ(sweep->workload, WorkloadSpec{});
}

TEST(SweepSpecTest, ErrorsNameLineAndSetting) {
  EXPECT_THAT(error_with("target_rps: 2.5", "arrivals: open"),
              AllOf(StartsWith("test.yaml:4: workload.arrivals"), HasSubstr("closed or poisson or bursty")));
  EXPECT_THAT(error_with("target_rps: 2.5", "arrivals: poisson, target_rps: 2"),
              AllOf(StartsWith("test.yaml:4: workload.target_rps"), HasSubstr("starts per minute")));
  EXPECT_THAT(error_with("target_rps: 2.5", "arrivals: poisson, arrival_variation: 2"), HasSubstr("bursty` alone"));
  EXPECT_THAT(error_with("target_rps: 2.5", "arrivals: bursty, arrival_variation: 0.01"),
              StartsWith("test.yaml:4: workload.arrival_variation"));
  EXPECT_THAT(error_with("target_rps: 2.5", "arrivals: poisson, burst_size: 2"), HasSubstr("bursts` alone"));
  EXPECT_THAT(error_with("target_rps: 2.5", "arrivals: poisson, arrival_profile: [{at: 2 s}, {at: 1 s}]"),
              HasSubstr("instants must ascend"));
  EXPECT_THAT(error_with("target_rps: 2.5", "arrivals: poisson, arrival_profile: [{at: 2 s, share: 0}]"),
              HasSubstr("nothing would ever arrive"));
  EXPECT_THAT(error_with("target_rps: 2.5", "max_conversations: 9"), HasSubstr("limited by the level"));
  EXPECT_THAT(error_with("target_rps: 2.5", "arrivals: poisson, max_conversations: 5000"),
              AllOf(StartsWith("test.yaml:4: workload.max_conversations"), HasSubstr("max_in_flight of 4096")));
  EXPECT_THAT(error_with("target_rps: 2.5", "arrivals: poisson, trace: {file: a.jsonl}"),
              StartsWith("test.yaml:4: workload.trace"));
  EXPECT_THAT(error_with("levels:", "level:"),
              AllOf(StartsWith("test.yaml:7: level: unknown key"), HasSubstr("levels")));
  EXPECT_THAT(error_with("[12, 24, 36]", "[12, 36, 24]"),
              StartsWith("test.yaml:7: levels[2]: levels must ascend: 24 does not come after 36"));
  EXPECT_THAT(error_with("[12, 24, 36]", "[12, 12]"), HasSubstr("levels must ascend"));
  EXPECT_THAT(error_with("[12, 24, 36]", "[]"), StartsWith("test.yaml:7: levels: at least one level"));
  EXPECT_THAT(error_with("[12, 24, 36]", "[5000]"), AllOf(HasSubstr("5000"), HasSubstr("max_in_flight of 4096")));
  EXPECT_THAT(error_with("[round-robin, kv]", "[kv, kv_aware]"),
              StartsWith("test.yaml:6: modes[1]: mode kv occurs twice"));
  EXPECT_THAT(error_with("[round-robin, kv]", "[]"), StartsWith("test.yaml:6: modes: at least one mode"));
  EXPECT_THAT(error_with("[round-robin, kv]", "kv"), StartsWith("test.yaml:6: modes: expected a list"));
  EXPECT_THAT(error_with("window: 6 s", "window: 11 s"),
              AllOf(StartsWith("test.yaml:5: method.window: "), HasSubstr("11 s"), HasSubstr("10 s")));
  EXPECT_THAT(error_with("snapshots: 2", "snapshots: 0"),
              StartsWith("test.yaml:5: method.snapshots: 0 is out of range"));
  EXPECT_THAT(error_with("turns_min: 2", "turns_min: 5"),
              StartsWith("test.yaml:4: workload.turns_min: turns_min (5) is above turns_max (4)"));
  EXPECT_THAT(error_with("seed: 7", "sead: 7"), StartsWith("test.yaml:4: workload.sead: unknown key"));
  EXPECT_THAT(error_with("max_error_pct: 1", "repetitions: 0"),
              StartsWith("test.yaml:5: method.repetitions: 0 is out of range"));
  EXPECT_THAT(message(read_sweep(parsed("modes: [kv]\nlevels: [1]\n"), ".")),
              HasSubstr("key \"deployment\" is missing"));
}

TEST(SweepSpecTest, TheLoadMayGoOnBetweenLevels) {
  const std::string text = std::string(kSweep);
  const auto with = [&](const std::string& workload, const std::string& method) {
    std::string changed = text;
    changed.replace(changed.find("seed: 7"), 7, workload);
    changed.replace(changed.find("warmup: 5 s"), 11, method);
    return read_sweep(parsed(changed), ".");
  };
  EXPECT_EQ(with("seed: 7", "warmup: 5 s")->method.between_levels, BetweenLevels::kDrain);
  EXPECT_EQ(with("seed: 7", "between_levels: continue")->method.between_levels, BetweenLevels::kContinue);
  EXPECT_THAT(message(with("seed: 7", "between_levels: stop")), HasSubstr("between_levels"));
  EXPECT_THAT(message(with("seed: 7, trace: {file: t.jsonl}", "between_levels: continue")),
              AllOf(StartsWith("test.yaml:5: method.between_levels: "), HasSubstr("a replayed trace")));
  const std::string open =
      "workload: {arrivals: poisson}\nmethod: {between_levels: continue}\n"
      "deployment: {workers: {count: 1}}\nmodes: [kv]\nlevels: [20]\n";
  EXPECT_THAT(message(read_sweep(parsed(open), ".")),
              AllOf(StartsWith("test.yaml:2: method.between_levels: "), HasSubstr("open arrivals")));
}

TEST(SweepSpecTest, AConversationMustFitTheModelLength) {
  const auto error = error_with("{count: 3}", "{count: 3, max_model_len: 8000}");
  EXPECT_THAT(error, AllOf(StartsWith("test.yaml:4: workload: "), HasSubstr("max_model_len of worker-0 is 8000"),
                           HasSubstr("4 answers of 1024")));
  WorkloadSpec one_turn;
  one_turn.turns_min = one_turn.turns_max = 1;
  EXPECT_EQ(longest_request_tokens(one_turn), 4'000U + 1'024U + 2 * 16U);
}

TEST(SweepSpecTest, ReadsTheSimulation) {
  const auto sweep = read_sweep(parsed(std::string(kSweep) + R"(
simulation: {client_hop: 1 ms, gateway_time: 2 ms, worker_hop: 3 ms, kv_event_delay: 4 ms, timeline_period: 0 s,
             keep_token_gaps: false, unstreamed_share: 0.25}
)"),
                                ".");
  ASSERT_TRUE(sweep.has_value()) << sweep.error().message;
  EXPECT_EQ(sweep->simulation, (SimulationSpec{.client_hop = std::chrono::milliseconds(1),
                                               .gateway_time = std::chrono::milliseconds(2),
                                               .worker_hop = std::chrono::milliseconds(3),
                                               .kv_event_delay = std::chrono::milliseconds(4),
                                               .timeline_period = Duration(0),
                                               .keep_token_gaps = false,
                                               .unstreamed_share = 0.25}));
  EXPECT_THAT(message(read_sweep(parsed(std::string(kSweep) + "simulation: {timeline_period: 1 us}\n"), ".")),
              AllOf(StartsWith("test.yaml:9: simulation.timeline_period: "), HasSubstr("at least 1 ms")));
  EXPECT_THAT(message(read_sweep(parsed(std::string(kSweep) + "simulation: {hop: 1 us}\n"), ".")),
              AllOf(StartsWith("test.yaml:9: simulation.hop: unknown key"), HasSubstr("worker_hop")));
}

TEST(SweepSpecTest, ReadsHowManyGatewaysAreSimulated) {
  const auto with_gateways = [](const std::string& gateways) {
    return read_sweep(parsed(std::string(kSweep) + "simulation: {gateways: " + gateways + "}\n"), ".");
  };
  const auto sweep = with_gateways("{count: 4, hop: 5 ms, loss: 0.01}");
  ASSERT_TRUE(sweep.has_value()) << sweep.error().message;
  EXPECT_EQ(sweep->simulation.gateways,
            (SimulatedGatewaysSpec{.count = 4, .exchange = true, .hop = std::chrono::milliseconds(5), .loss = 0.01}));
  EXPECT_FALSE(with_gateways("{count: 4, exchange: false, hop: 0 ms, loss: 0}")->simulation.gateways.exchange);
  EXPECT_THAT(message(with_gateways("{count: 4, exchange: false, loss: 0.1}")),
              HasSubstr("with exchange: false there are none"));
  for (const char* const wrong : {"{count: 0}", "{count: 65}", "{loss: 1.1}", "{hop: -1 ms}", "{hops: 1 ms}"})
    EXPECT_FALSE(with_gateways(wrong)) << wrong;
}

TEST(SweepSpecTest, ReadsWhatHappensToWorkers) {
  const auto with_change = [](const std::string& change) {
    return read_sweep(parsed(std::string(kSweep) + "simulation: {changes: [" + change + "]}\n"), ".");
  };
  const auto sweep = with_change(
      "{at: 10 s, worker: worker-1, slowness: 2}, {at: 0 s, worker: worker-0, max_num_tokens: 512}, "
      "{at: 40 s, worker: worker-2, restart: 5 s}");
  ASSERT_TRUE(sweep.has_value()) << sweep.error().message;
  EXPECT_EQ(sweep->simulation.changes,
            (std::vector<WorkerChange>{
                {.at = std::chrono::seconds(10), .worker = "worker-1", .slowness = 2},
                {.worker = "worker-0", .max_num_tokens = 512},
                {.at = std::chrono::seconds(40), .worker = "worker-2", .restart = std::chrono::seconds(5)}}));
  EXPECT_THAT(message(with_change("{at: 2 h, worker: worker-1, slowness: 2}")),
              AllOf(StartsWith("test.yaml:9: simulation.changes"), HasSubstr("change 1 of worker-1 comes at 7200 s")));
  EXPECT_THAT(message(with_change("{at: 1 s, worker: nobody, slowness: 2}")), HasSubstr("no worker is called"));
  EXPECT_THAT(message(with_change("{at: 1 s, worker: worker-1}")), HasSubstr("expected one of slowness"));
  EXPECT_THAT(message(with_change("{at: 1 s, worker: worker-1, slowness: 2, restart: 1 s}")),
              HasSubstr("expected one of slowness"));
  EXPECT_THAT(message(with_change("{at: 1 s, slowness: 2}")), HasSubstr("\"worker\" is missing"));
  EXPECT_THAT(message(with_change("{at: 1 s, worker: worker-1, max_num_tokens: 3}")), HasSubstr("max_batch_size"));
}

TEST(SweepSpecTest, ATraceReplacesTheConversations) {
  const auto text = with_line(kSweep, "seed: 7", "seed: 7, trace: {file: day.jsonl, loop: closed, speed: 2}");
  const auto sweep = read_sweep(parsed(with_line(text, "{count: 3}", "{count: 3, max_model_len: 100}")), ".");
  ASSERT_TRUE(sweep.has_value()) << sweep.error().message;
  EXPECT_EQ(sweep->workload.trace.file, "day.jsonl");
  EXPECT_EQ(sweep->workload.trace.loop, TraceLoop::kClosed);
  EXPECT_EQ(sweep->workload.trace.speed, 2);
  EXPECT_EQ(sweep->workload.trace.tokens_per_hash, 0U) << "as the file says";
  EXPECT_EQ(read_sweep(parsed(text), "/srv/sweeps").value().workload.trace.file, "/srv/sweeps/day.jsonl");
  EXPECT_THAT(error_with("seed: 7", "trace: {loop: open}"),
              AllOf(StartsWith("test.yaml:4: workload.trace: "), HasSubstr("\"file\" is missing")));
  EXPECT_THAT(error_with("seed: 7", "trace: {file: day.csv}"),
              AllOf(StartsWith("test.yaml:4: workload.trace.file: "), HasSubstr(".jsonl"), HasSubstr(".sqlite")));
  for (const char* const key : {"run", "level"}) {
    EXPECT_THAT(error_with("seed: 7", std::string("trace: {file: a.jsonl, ") + key + ": 2}"),
                AllOf(StartsWith(std::string("test.yaml:4: workload.trace.") + key), HasSubstr("is one trace")));
  }
  EXPECT_THAT(error_with("seed: 7", "trace: {file: a.jsonl, loop: both}"), HasSubstr("expected open or closed"));
}

class SweepFilesTest : public testing::Test {
 protected:
  // ctest runs tests of this fixture in parallel: each has its own folder.
  SweepFilesTest()
      : folder_(std::filesystem::path(testing::TempDir()) /
                (std::string("kvist_sweep_files_") + testing::UnitTest::GetInstance()->current_test_info()->name())) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~SweepFilesTest() override { std::filesystem::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name) << text;
    return (folder_ / name).string();
  }

  std::filesystem::path folder_;
};

TEST_F(SweepFilesTest, ADeploymentMayBeASeparateFile) {
  write("three.yaml", "deployment:\n  name: three\n  workers: {count: 3}\n");
  const auto path = write("sweep.yaml", "deployment: three.yaml\nmodes: [kv]\nlevels: [1]\n");
  const auto sweep = load_sweep(path);
  ASSERT_TRUE(sweep.has_value()) << sweep.error().message;
  EXPECT_EQ(sweep->deployment.name, "three");
  EXPECT_EQ(sweep->deployment.workers.size(), 3U);
}

TEST_F(SweepFilesTest, PathsAreRelativeToTheirFile) {
  std::filesystem::create_directories(folder_ / "parts");
  write("parts/three.yaml", "deployment: {workers: {profile: {file: own.yaml}}}\n");
  const auto path = write(
      "sweep.yaml", "deployment: parts/three.yaml\nworkload: {trace: {file: t.jsonl}}\nmodes: [kv]\nlevels: [1]\n");
  const auto sweep = load_sweep(path);
  ASSERT_TRUE(sweep.has_value()) << sweep.error().message;
  EXPECT_EQ(sweep->deployment.workers.at(0).profile->file, (folder_ / "parts" / "own.yaml").string());
  EXPECT_EQ(sweep->workload.trace.file, (folder_ / "t.jsonl").string());
  const auto worker = load_worker(write("w.yaml", "worker: {profile: {file: ./parts/../own.yaml}}\n"));
  EXPECT_EQ(worker.value().profile->file, (folder_ / "own.yaml").string());
  const auto again = load_worker(write("parts/w.yaml", "worker:\n" + to_yaml(*worker, 2)));
  EXPECT_EQ(again.value(), *worker) << "what is written elsewhere means the same file";
}

TEST_F(SweepFilesTest, AnErrorNamesTheFileItIsIn) {
  const auto deployment = write("three.yaml", "deployment:\n  workers: {count: 0}\n");
  const auto sweep = write("sweep.yaml", "name: x\ndeployment: three.yaml\nmodes: [kv]\nlevels: [1]\n");
  EXPECT_THAT(message(load_sweep(sweep)), StartsWith(deployment + ":2: deployment.workers.count: "));
  const auto broken = write("broken.yaml", "name: x\ndeployment: four.yaml\nmodes: [kv]\nlevels: [1]\n");
  EXPECT_THAT(message(load_sweep(broken)), AllOf(StartsWith(broken + ":2: deployment: "), HasSubstr("four.yaml")));
}

TEST_F(SweepFilesTest, EachFileHasOneRootKey) {
  EXPECT_EQ(load_worker(write("w.yaml", "worker: {name: a}\n")).value().name, "a");
  EXPECT_EQ(load_workload(write("l.yaml", "workload: {seed: 3}\n")).value().seed, 3U);
  EXPECT_THAT(message(load_worker(write("w2.yaml", "wroker: {name: a}\n"))),
              AllOf(HasSubstr("w2.yaml:1: "), HasSubstr("\"worker\" is missing among: wroker")));
  EXPECT_THAT(message(load_worker(write("w3.yaml", "worker: {}\nmore: 1\n"))),
              HasSubstr("w3.yaml:2: more: unknown key"));
  EXPECT_THAT(message(load_gateway(write("g.yaml", "gateway: {}\n"))), HasSubstr("names no worker"));
  EXPECT_EQ(load_gateway(write("g2.yaml", "gateway: {workers: [{url: 'http://h:1'}]}\n")).value().workers.size(), 1U);
}

}  // namespace
}  // namespace kvist::spec::sweep_test

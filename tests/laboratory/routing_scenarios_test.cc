// kvist-laboratory's commands, and the routing scenarios that kvist ships.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "cli/command_test.h"
#include "kvist/base/yaml.h"
#include "kvist/laboratory/command_line.h"
#include "kvist/laboratory/routing_spec.h"
#include "kvist/spec/files.h"

namespace kvist::laboratory {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr const char* kSweep = R"(name: small
deployment:
  workers: {count: 2, kv_blocks: 1000, output_length: {mean_tokens: 20, standard_deviation_tokens: 4}}
workload: {starters: 2, starter_tokens_min: 200, starter_tokens_max: 300, max_tokens: 40}
method: {warmup: 1 s, snapshots: 1, snapshot_interval: 4 s, window: 4 s}
modes: [round_robin, kv, random]
levels: [2, 4]
)";

constexpr const char* kManifest = R"(bars:
  p50: {claim: "TTFT p50 below a second", holds_if: "ttft_p50_ms(kv) < 1000", shows: "{{ms(ttft_p50_ms(kv))}}"}
  never: {claim: "Nothing takes time", holds_if: "ttft_p50_ms(kv) <= 0", shows: "{{fixed(ratio(ttft_p50_ms), 3)}}"}
scenarios:
  - {name: small, title: "Small", shows: "Little.", plot: true, bars: [p50, {bar: never, from: 4}]}
)";

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The standard output of a command of kvist-laboratory that must succeed.
std::string laboratory(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "kvist-laboratory");
  testing::internal::CaptureStdout();
  EXPECT_EQ(run(static_cast<int>(arguments.size()), arguments.data()), 0);
  return testing::internal::GetCapturedStdout();
}

class RoutingScenariosTest : public cli::CommandTest {
 protected:
  std::string simulated() {
    const auto file = write("sweep.yaml", kSweep);
    const cli::Ran ran =
        cli::kvist({"simulate", "-f", file, "--output", folder_ + "/results/small", "--repetitions", "2"});
    EXPECT_EQ(ran.status, 0) << ran.err;
    EXPECT_THAT(ran.out, HasSubstr("x 2 repetitions"));
    return folder_ + "/results/small";
  }
};

TEST_F(RoutingScenariosTest, TheDocumentListsMissedBarsAndIsReproducible) {
  simulated();
  const auto manifest = write("routing.yaml", kManifest);
  const auto document = [&](const std::string& name) {
    const std::string results = folder_ + "/results";
    const std::string path = folder_ + "/" + name;
    const std::string images = folder_ + "/images";
    EXPECT_THAT(laboratory({"routing", "--results", results.c_str(), "--manifest", manifest.c_str(), "--document",
                            path.c_str(), "--images", images.c_str()}),
                HasSubstr("2 bars met, 1 missed, 0 open"));
    return text_of(path);
  };
  const std::string first = document("first.md");
  EXPECT_THAT(first, AllOf(HasSubstr("small, 4 users:"), HasSubstr("Nothing takes time"),
                           HasSubstr("Not explained yet."), HasSubstr("images/small.svg")));
  EXPECT_EQ(first, document("second.md"));
  EXPECT_THAT(text_of(folder_ + "/images/small.svg"), HasSubstr("Throughput"));
}

TEST(CommandLine, WrongUsageIsTwoAndAFailureIsOne) {
  const std::vector<const char*> nothing = {"kvist-laboratory"};
  EXPECT_EQ(run(1, nothing.data()), 2);
  const std::vector<const char*> absent = {"kvist-laboratory", "routing",    "--results",
                                           "/nowhere",         "--manifest", "/no.yaml"};
  testing::internal::CaptureStderr();
  EXPECT_EQ(run(static_cast<int>(absent.size()), absent.data()), 1);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("kvist-laboratory routing: /no.yaml"));
}

TEST(ShippedRoutingScenarios, AreAllListedAndCanBeRead) {
  const std::filesystem::path folder = std::filesystem::path(KVIST_SOURCE_DIR) / "examples/routing";
  const auto root = YamlNode::load((folder / "routing.yaml").string());
  ASSERT_TRUE(root.has_value()) << root.error().message;
  const auto listed = read_routing_scenarios(*root);
  ASSERT_TRUE(listed.has_value()) << listed.error().message;
  std::set<std::string> names;
  for (const RoutingScenario& scenario : listed->scenarios) {
    EXPECT_TRUE(names.insert(scenario.name).second) << scenario.name;
    const auto sweep = spec::load_sweep((folder / (scenario.name + ".yaml")).string());
    ASSERT_TRUE(sweep.has_value()) << sweep.error().message;
    EXPECT_EQ(sweep->name, scenario.name);
    EXPECT_EQ(sweep->modes.front(), listed->baseline);
    EXPECT_NE(std::ranges::find(sweep->modes, listed->candidate), sweep->modes.end()) << scenario.name;
    EXPECT_GE(sweep->method.repetitions, 3U) << "intervals of two seeds say nothing";
  }
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().stem().string();
    if (entry.path().extension() != ".yaml" || name == "routing" || name.ends_with(".deployment")) continue;
    EXPECT_TRUE(names.contains(name)) << name << " is a scenario that routing.yaml does not list";
  }
}

}  // namespace
}  // namespace kvist::laboratory

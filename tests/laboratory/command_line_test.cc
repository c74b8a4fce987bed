// kvist-laboratory's commands, and the routing scenarios that kvist ships.
#include "kvist/laboratory/command_line.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "cli/command_test.h"
#include "kvist/spec/files.h"

namespace kvist::laboratory::command_line_test {
namespace {

using testing::HasSubstr;

TEST(CommandLine, WrongUsageIsTwoAndAFailureIsOne) {
  const std::vector<const char*> nothing = {"kvist-laboratory"};
  EXPECT_EQ(run(1, nothing.data()), 2);
  const std::vector<const char*> absent = {"kvist-laboratory", "plots", "/no.json", "--output", "/no.svg"};
  testing::internal::CaptureStderr();
  EXPECT_EQ(run(static_cast<int>(absent.size()), absent.data()), 1);
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("kvist-laboratory plots: /no.json"));
}

class PlotsCommandTest : public cli::CommandTest {};

TEST_F(PlotsCommandTest, WritesAFile) {
  const auto data =
      write("plots.json", R"({"columns": 1, "plots": [{"title": "TTFT", "x_title": "load", "y_title": "ms",
      "series": [{"name": "kv", "colour": 1, "points": [[30, 1], [60, 2]]}]}]})");
  const std::string path = folder_ + "/plots.svg";
  const std::vector<const char*> arguments = {"kvist-laboratory", "plots", data.c_str(), "--output", path.c_str()};
  EXPECT_EQ(run(static_cast<int>(arguments.size()), arguments.data()), 0);
  std::ifstream file(path);
  EXPECT_THAT(std::string(std::istreambuf_iterator<char>(file), {}), HasSubstr("<svg"));
}

TEST(ShippedRoutingScenarios, CanBeReadAndHaveBothModesThatAreCompared) {
  const std::filesystem::path folder = std::filesystem::path(KVIST_SOURCE_DIR) / "examples/routing";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().stem().string();
    if (entry.path().extension() != ".yaml" || name.ends_with(".deployment")) continue;
    const auto sweep = spec::load_sweep(entry.path().string());
    ASSERT_TRUE(sweep.has_value()) << sweep.error().message;
    EXPECT_EQ(sweep->name, name);
    for (const spec::RoutingMode mode : {spec::RoutingMode::kRoundRobin, spec::RoutingMode::kKv}) {
      EXPECT_NE(std::ranges::find(sweep->modes, mode), sweep->modes.end()) << name;
    }
  }
}

}  // namespace
}  // namespace kvist::laboratory::command_line_test

// Comparing modes on the command line.
#include <gmock/gmock.h>

#include <fstream>
#include <iterator>

#include "cli/command_test.h"

namespace kvist::cli::compare_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr const char* kSweep = R"(name: small
deployment:
  workers: {count: 2, kv_blocks: 1000, output_length: {mean_tokens: 20, standard_deviation_tokens: 4}}
workload: {starters: 2, starter_tokens_min: 200, starter_tokens_max: 300, max_tokens: 40}
method: {warmup: 1 s, snapshots: 1, snapshot_interval: 4 s, window: 4 s}
modes: [round_robin, kv, random]
levels: [2, 4]
)";

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class CompareTest : public CommandTest {
 protected:
  std::string simulated() {
    const auto file = write("sweep.yaml", kSweep);
    const Ran ran = kvist({"simulate", "-f", file, "--output", folder_ + "/results/small", "--repetitions", "2"});
    EXPECT_EQ(ran.status, 0) << ran.err;
    EXPECT_THAT(ran.out, HasSubstr("x 2 repetitions"));
    return folder_ + "/results/small";
  }
};

TEST_F(CompareTest, SaysWhichModeIsBetterThanTheBaseline) {
  const std::string results = simulated();
  const Ran all = kvist({"report", "compare", results, results, "--json", folder_ + "/c.json"});
  EXPECT_EQ(all.status, 0) << all.err;
  EXPECT_THAT(all.out, AllOf(HasSubstr("small: kv against round_robin"), HasSubstr("small: random against round_robin"),
                             HasSubstr("All levels: verdict: better/equal/worse")));
  EXPECT_THAT(text_of(folder_ + "/c.json"), AllOf(HasSubstr("\"combined\""), HasSubstr("\"verdict\"")));
  const Ran one = kvist({"report", "compare", results, "--baseline", "random", "--mode", "kv"});
  EXPECT_THAT(one.out, AllOf(HasSubstr("kv against random"), Not(HasSubstr("round_robin"))));
}

TEST_F(CompareTest, NamesWhatItCannotCompare) {
  const std::string results = simulated();
  EXPECT_THAT(kvist({"report", "compare", results, "--baseline", "dynamo"}).err, HasSubstr("dynamo was not measured"));
  EXPECT_THAT(kvist({"report", "compare", results, "--mode", "dynamo"}).err, HasSubstr("holds no mode to compare"));
  EXPECT_THAT(kvist({"report", "compare", folder_}).err, HasSubstr("no results.sqlite in it"));
  EXPECT_EQ(kvist({"report", "compare"}).status, 2);
}

}  // namespace
}  // namespace kvist::cli::compare_test

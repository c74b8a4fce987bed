// What the options of `kvist loadgen` become, and which of them are refused.
#include "kvist/cli/loadgen_options.h"

#include <gtest/gtest.h>

#include <vector>

namespace kvist::cli {
namespace {

std::string command(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "kvist");
  return command_text(static_cast<int>(arguments.size()), arguments.data());
}

TEST(LoadgenCommandText, LeavesOutWhatMayBeSecret) {
  EXPECT_EQ(command({"loadgen", "--rate", "4", "--header", "X-Key: k1", "--model", "m"}),
            "kvist loadgen --rate 4 --header 'X-Key: ...' --model m");
  EXPECT_EQ(command({"loadgen", "--header=X-Key: k1", "-f", "a b"}), "kvist loadgen '--header=X-Key: ...' -f 'a b'");
  EXPECT_EQ(command({"loadgen", "--header", "X-Key: k1", "Authorization: k2", "k3"}),
            "kvist loadgen --header 'X-Key: ...' 'Authorization: ...' ...");
  EXPECT_EQ(command({"loadgen", "--header", "k1"}), "kvist loadgen --header ...");
  EXPECT_EQ(command({"loadgen", "--path", "/v1/x?key=k1", "--path=/v2?key=k2"}),
            "kvist loadgen --path '/v1/x?...' '--path=/v2?...'");
  EXPECT_EQ(command({"loadgen", "--path", "/v1/x"}), "kvist loadgen --path /v1/x");
}

}  // namespace
}  // namespace kvist::cli

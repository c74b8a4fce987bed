#include "kvist/base/closest_name.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace kvist::closest_name_test {
namespace {

const std::vector<std::string> kNames = {"model", "models", "mode", "block_size", "kv"};

TEST(ClosestName, FindsWhatIsAFewEditsAway) {
  EXPECT_EQ(closest_name("modle", kNames), "model");  // two letters exchanged are one edit
  EXPECT_EQ(closest_name("blocksize", kNames), "block_size");
  EXPECT_EQ(closest_name("blok_sise", kNames), "block_size");
  EXPECT_EQ(closest_name("kvv", kNames), "kv");
  EXPECT_EQ(closest_name("modes", kNames), "model") << "the first of equals";
}

TEST(ClosestName, SaysNothingOfWhatIsFarAway) {
  EXPECT_EQ(closest_name("workers", kNames), std::nullopt);
  EXPECT_EQ(closest_name("", kNames), std::nullopt);
  EXPECT_EQ(closest_name("x", kNames), std::nullopt);
  EXPECT_EQ(closest_name(std::string(100, 'm'), kNames), std::nullopt);
  EXPECT_EQ(closest_name("model", std::vector<std::string>{std::string(100, 'm')}), std::nullopt);
  EXPECT_EQ(closest_name("model", {}), std::nullopt);
}

TEST(ClosestName, EndsAMessage) {
  EXPECT_EQ(did_you_mean("gatway", std::vector<std::string>{"gateway", "worker"}), "; did you mean gateway?");
  EXPECT_EQ(did_you_mean("frobnicate", std::vector<std::string>{"gateway", "worker"}), "");
}

}  // namespace
}  // namespace kvist::closest_name_test

#include "kvist/dispatch/model_watch.h"

#include <gtest/gtest.h>

#include <vector>

namespace kvist::dispatch {
namespace {

class ModelWatchTest : public ::testing::Test {
 protected:
  bool list(std::uint32_t worker, const std::vector<ServedModel>& models) {
    return watch_.on_list(WorkerId(worker), models);
  }
  bool usable(std::uint32_t worker) const { return watch_.is_usable(WorkerId(worker)); }
  ModelMatch match(std::uint32_t worker) const { return watch_.worker(WorkerId(worker)).match; }

  ModelWatch watch_{"m", 3};
};

TEST_F(ModelWatchTest, AWorkerWithAnotherModelIsNotUsable) {
  EXPECT_TRUE(list(0, {{"m", 4'096}, {"adapter", 4'096}}));
  EXPECT_FALSE(list(0, {{"m", 4'096}})) << "nothing that matters changed";
  EXPECT_TRUE(list(1, {{"other", 8'192}}));
  EXPECT_TRUE(usable(0));
  EXPECT_FALSE(usable(1));
  EXPECT_TRUE(usable(2)) << "it was not asked yet";
  EXPECT_EQ(watch_.worker(WorkerId(1)).served, "other");
  EXPECT_EQ(watch_.worker(WorkerId(1)).max_model_len, 0U) << "that of another model means nothing here";
  EXPECT_TRUE(list(1, {{"m", 2'048}}));
  EXPECT_TRUE(usable(1));
  EXPECT_EQ(watch_.longest_context(), 4'096U);
}

TEST_F(ModelWatchTest, ContextLengthsAreCompared) {
  EXPECT_TRUE(list(0, {{"m", 4'096}}));
  EXPECT_TRUE(list(0, {{"m", 1'024}})) << "restarted with less";
  EXPECT_EQ(watch_.worker(WorkerId(0)).max_model_len, 1'024U);
  EXPECT_EQ(watch_.worker(WorkerId(0)).changes, 2U);
}

TEST_F(ModelWatchTest, IfNoWorkerIsKnownToServeTheModelTheSettingIsWrong) {
  for (std::uint32_t w = 0; w < 3; ++w) list(w, {{"other"}});
  for (std::uint32_t w = 0; w < 3; ++w) EXPECT_TRUE(usable(w));
  list(2, {{"m"}});
  EXPECT_FALSE(usable(0));
  EXPECT_TRUE(usable(2));
}

TEST_F(ModelWatchTest, NoListIsNoReason) {
  list(0, {{"m"}});
  EXPECT_TRUE(watch_.on_no_list(WorkerId(1)) || usable(1));
  EXPECT_EQ(match(1), ModelMatch::kUnknown);
  EXPECT_TRUE(usable(1));
  list(1, {{"other"}});
  EXPECT_TRUE(list(1, {})) << "an empty list is none";
  EXPECT_EQ(match(1), ModelMatch::kUnknown);
}

}  // namespace
}  // namespace kvist::dispatch

#include "kvist/dispatch/model_watch.h"

#include <gtest/gtest.h>

#include <vector>

namespace kvist::dispatch::model_watch_test {
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

TEST_F(ModelWatchTest, KnowsTheAdaptersOfTheModel) {
  const auto adapter = [](std::string id, std::string parent) {
    return ServedModel{.id = std::move(id), .parent = std::move(parent)};
  };
  EXPECT_TRUE(list(0, {{.id = "m"}, adapter("zulu", "m"), adapter("alpha", "m"), adapter("alpha", "m")}));
  EXPECT_EQ(watch_.worker(WorkerId(0)).adapters, (std::vector<std::string>{"alpha", "zulu"})) << "sorted, each once";
  EXPECT_FALSE(list(0, {adapter("alpha", "m"), {.id = "m"}, adapter("zulu", "m")})) << "their order means nothing";
  EXPECT_TRUE(list(1, {{.id = "m"},
                       adapter("beta", "m"),
                       adapter("of another", "n"),
                       {.id = "n"},
                       adapter("m", "m"),
                       adapter("", "m"),
                       adapter(std::string(ModelWatch::kMaxAdapterNameBytes + 1, 'x'), "m")}));
  EXPECT_EQ(watch_.worker(WorkerId(1)).adapters, std::vector<std::string>{"beta"});
  EXPECT_TRUE(list(2, {{.id = "n"}, adapter("gamma", "m")})) << "it does not serve the model";
  EXPECT_EQ(watch_.adapters(), (std::vector<std::string>{"alpha", "beta", "zulu"}));
  EXPECT_TRUE(list(0, {{.id = "m"}, adapter("zulu", "m")})) << "one was unloaded";
  EXPECT_EQ(watch_.adapters(), (std::vector<std::string>{"beta", "zulu"}));
  watch_.forget(WorkerId(1));
  EXPECT_EQ(watch_.adapters(), std::vector<std::string>{"zulu"});
}

TEST_F(ModelWatchTest, AnAdaptersParentMayBeAnotherNameOfTheModel) {
  const std::vector<ServedModel> models = {{.id = "first name", .root = "/models/m"},
                                           {.id = "m", .root = "/models/m"},
                                           {.id = "n", .root = "/models/n"},
                                           {.id = "alpha", .parent = "first name", .root = "/loras/alpha"},
                                           {.id = "beta", .parent = "n", .root = "/loras/beta"},
                                           {.id = "gamma", .parent = "alpha", .root = "/loras/gamma"}};
  list(0, models);
  EXPECT_EQ(watch_.worker(WorkerId(0)).adapters, std::vector<std::string>{"alpha"});
  std::vector<ServedModel> rootless = models;
  for (ServedModel& model : rootless) model.root.clear();
  list(0, rootless);
  EXPECT_TRUE(watch_.worker(WorkerId(0)).adapters.empty()) << "two models without a root need not be one";
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
}  // namespace kvist::dispatch::model_watch_test

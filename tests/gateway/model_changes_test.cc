// Models that come and go with the gateway's file, without the listeners.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <future>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "followed_models.h"
#include "running_gateway.h"

namespace kvist::gateway::model_changes_test {
namespace {

class ModelChangesTest : public ::testing::Test {
 protected:
  /// What administration has decided of the model's worker.
  static std::optional<dispatch::WorkerHold> held(FollowedModels& models, const std::string& model,
                                                  const std::string& worker) {
    return models.run([&](const ServedModels& all, FollowedFile&) {
      ServedModel* const found = all.find(model);
      return found == nullptr ? std::nullopt : found->changes.holds().find(worker);
    });
  }
  std::string path(const char* kind) const {
    return ::testing::TempDir() + fmt::format("model-changes-{}-{}", ::getpid(), kind);
  }

  FakeWorker a_{"a"};
  FakeWorker b_{"b"};
  spec::ServedModelSpec x_ = served_model("x", a_);
  spec::ServedModelSpec y_ = served_model("y", b_);
};

TEST_F(ModelChangesTest, WhatIsLoadedWhenTheGatewayEndsIsNotServed) {
  FollowedModels models(gateway_of({x_}), path("file"));
  models.run([](ServedModels&, FollowedFile& file) { file.stop(); });
  models.change({x_, y_});
  EXPECT_FALSE(models.run([](ServedModels&, const FollowedFile& file) { return file.is_loading(); }));
  EXPECT_THAT(models.names(), testing::ElementsAre("x"));
}

// The file is taken and the gateway told to end within one turn of the loop, so that nothing can be loaded in between.
TEST_F(ModelChangesTest, WhatWasBeingLoadedWhenTheGatewayEndsIsNotServed) {
  const std::string file = path("file");
  FollowedModels models(gateway_of({x_}), file);
  std::ofstream(file) << "gateway:\n" << spec::to_yaml(gateway_of({x_, y_}), 2);
  models.run([&](ServedModels&, FollowedFile& followed) {
    followed.take(read_settings_file(file));
    EXPECT_TRUE(followed.is_loading());
    followed.stop();
  });
  ASSERT_TRUE(models.await_loaded());
  EXPECT_THAT(models.names(), testing::ElementsAre("x"));
}

TEST_F(ModelChangesTest, OneThatIsPutBackComesWhenNothingOfTheOldOneIsLeft) {
  FollowedModels models(gateway_of({x_, y_}), path("file"));
  const dispatch::DispatchHandle request = models.begin_request("y");
  models.run([](ServedModels& all, FollowedFile&) { EXPECT_TRUE(all.find("y")->changes.cordon("b")); });
  models.change({x_});
  models.change({x_, y_});
  EXPECT_FALSE(models.run([](ServedModels&, const FollowedFile& file) { return file.is_loading(); }));
  EXPECT_THAT(models.names(), testing::ElementsAre("x", "y-")) << "one of each name: they are labels of metrics";
  models.end_request(request);
  ASSERT_TRUE(models.await_names({"x", "y"}));
  EXPECT_EQ(held(models, "y", "b"), dispatch::WorkerHold::kCordoned);
  EXPECT_TRUE(await([&] {
    return models.run([](const ServedModels& all, FollowedFile&) {
      const dispatch::WorkerPlaces& places = all.find("y")->parts.places;
      const auto place = places.find("b");
      return place && places.place(*place).state == dispatch::PlaceState::kCordoned;
    });
  }));
}

TEST_F(ModelChangesTest, WhatAnAdministratorDecidedOutlastsTheModel) {
  FollowedModels models(gateway_of({x_, y_}), path("file"));
  models.run([](ServedModels& all, FollowedFile&) { EXPECT_TRUE(all.find("y")->changes.cordon("b")); });
  models.change({x_});
  ASSERT_TRUE(models.await_names({"x"}));
  models.change({x_, y_});
  ASSERT_TRUE(models.await_names({"x", "y"}));
  EXPECT_EQ(held(models, "y", "b"), dispatch::WorkerHold::kCordoned);
  EXPECT_EQ(held(models, "x", "b"), std::nullopt);
}

TEST_F(ModelChangesTest, ARecordHasOneWriterAtATime) {
  y_.record.file = path("record.jsonl");
  FollowedModels models(gateway_of({x_, y_}), path("file"));
  const dispatch::DispatchHandle request = models.begin_request("y");
  spec::ServedModelSpec renamed = y_;
  renamed.model = "z";
  models.change({x_, renamed});
  EXPECT_FALSE(models.run([](ServedModels&, const FollowedFile& file) { return file.is_loading(); }));
  EXPECT_THAT(models.names(), testing::ElementsAre("x", "y-"));
  models.end_request(request);
  EXPECT_TRUE(models.await_names({"x", "z"}));
  std::remove(y_.record.file.c_str());
  std::remove((y_.record.file + ".1").c_str());
}

TEST_F(ModelChangesTest, WhatTheFileDropsAgainWhileItWaitsDoesNotCome) {
  FollowedModels models(gateway_of({x_, y_}), path("file"));
  const dispatch::DispatchHandle request = models.begin_request("y");
  models.change({x_});
  models.change({x_, y_});
  models.change({x_});
  models.end_request(request);
  ASSERT_TRUE(models.await_names({"x"}));
  EXPECT_FALSE(models.run([](ServedModels&, const FollowedFile& file) { return file.is_loading(); }));
}

// An administrator adds a worker whose key is on a disk that takes its time.
TEST_F(ModelChangesTest, AModelIsThereUntilWhoAddsAWorkerHasHisAnswer) {
  const std::string key = path("key");
  ASSERT_EQ(::mkfifo(key.c_str(), 0600), 0);
  FollowedModels models(gateway_of({x_, y_}), path("file"));
  std::promise<Result<void>> added;
  models.run([&](ServedModels& all, FollowedFile&) {
    spec::UpstreamSpec worker = b_.upstream();
    worker.name = "c";
    worker.api_key_file = key;
    all.find("y")->changes.add(worker, [&](const Result<void>& result) { added.set_value(result); });
  });
  models.change({x_});
  // What could be emptied is, and only the key is missing.
  ASSERT_TRUE(await([&] {
    return models.run([](const ServedModels& all, FollowedFile&) {
      const dispatch::WorkerPlaces& places = all.all().back()->parts.places;
      return places.vacant() == places.size();
    });
  }));
  for (int i = 0; i < 5; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // it is looked at so often
    EXPECT_THAT(models.names(), testing::ElementsAre("x", "y-"));
  }
  std::ofstream(key) << "secret\n";
  auto answer = added.get_future();
  ASSERT_EQ(answer.wait_for(std::chrono::seconds(100)), std::future_status::ready);
  const Result<void> result = answer.get();
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().message, testing::HasSubstr("is not served any more"));
  EXPECT_TRUE(models.await_names({"x"}));
  std::remove(key.c_str());
}

}  // namespace
}  // namespace kvist::gateway::model_changes_test

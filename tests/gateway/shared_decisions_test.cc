// What other gateways of the group decide, at models that come and go.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "followed_models.h"
#include "kvist/gateway/peer_link.h"
#include "kvist/gateway/worker_decision.h"
#include "running_gateway.h"

namespace kvist::gateway::shared_decisions_test {
namespace {

class SharedDecisionsTest : public ::testing::Test {
 protected:
  static spec::ServedModelSpec served(const std::string& name, const FakeWorker& worker) {
    spec::ServedModelSpec model = served_model(name, worker);
    model.mode = spec::RoutingMode::kRoundRobin;
    return model;
  }
  static std::string mode_key(const std::string& model) { return "mode." + peer_key(model); }
  static std::string hold_key(const std::string& model, const std::string& worker) {
    return "hold." + peer_key(model) + "." + peer_key(worker);
  }

  /// The table has this row now.
  void hear(const std::string& key, const std::optional<std::string>& value) {
    models_.run([&](ServedModels&, FollowedFile&) { models_.decisions().on_row(key, value); });
  }
  /// What the timer does.
  void look_for_models() {
    models_.run([&](ServedModels&, FollowedFile&) { models_.decisions().look_for_models(); });
  }
  void serve(const std::vector<spec::ServedModelSpec>& models, const std::vector<std::string>& names) {
    models_.change(models);
    ASSERT_TRUE(models_.await_names(names));
  }
  spec::RoutingMode mode(const std::string& model) {
    return models_.run([&](ServedModels& all, FollowedFile&) { return all.find(model)->parts.router.mode(); });
  }
  std::optional<dispatch::WorkerHold> held(const std::string& model, const std::string& worker) {
    return models_.run([&](ServedModels& all, FollowedFile&) { return all.find(model)->changes.holds().find(worker); });
  }
  /// That of the worker "a", which is the only one of "x".
  dispatch::WorkerPlaces::Place place() {
    return models_.run(
        [&](ServedModels& all, FollowedFile&) { return all.find("x")->parts.places.place(WorkerId(0)); });
  }
  std::uint64_t followed() {
    return models_.run([&](ServedModels&, FollowedFile&) { return models_.decisions().followed(); });
  }

  FakeWorker a_{"a"};
  FakeWorker b_{"b"};
  spec::ServedModelSpec x_ = served("x", a_);
  spec::ServedModelSpec y_ = served("y", b_);
  FollowedModels models_{gateway_of({x_}), ::testing::TempDir() + "shared-decisions-" + std::to_string(::getpid())};
};

TEST_F(SharedDecisionsTest, WhatIsDecidedElsewhereIsDoneHere) {
  hear(mode_key("x"), "kv");
  EXPECT_EQ(mode("x"), spec::RoutingMode::kKv);
  hear(hold_key("x", "a"), "cordoned a");
  EXPECT_EQ(held("x", "a"), dispatch::WorkerHold::kCordoned);
  hear(hold_key("x", "a"), "free a");
  EXPECT_EQ(held("x", "a"), std::nullopt);
  EXPECT_EQ(followed(), 3U);
  hear(mode_key("x"), std::nullopt);
  EXPECT_EQ(mode("x"), spec::RoutingMode::kKv) << "one deletes the row, not what was decided";
}

TEST_F(SharedDecisionsTest, OfTwoDecisionsForAModelThatComesLaterTheLastCounts) {
  hear(mode_key("y"), "random");
  hear(hold_key("y", "b"), "cordoned b");
  serve({x_, y_}, {"x", "y"});
  // They come after the model and before it was looked for.
  hear(mode_key("y"), "kv");
  hear(hold_key("y", "b"), "free b");
  look_for_models();
  EXPECT_EQ(mode("y"), spec::RoutingMode::kKv);
  EXPECT_EQ(held("y", "b"), std::nullopt);
}

TEST_F(SharedDecisionsTest, WhatWasDecidedOutlastsTheModelsPlaceInTheFile) {
  serve({x_, y_}, {"x", "y"});
  look_for_models();
  hear(mode_key("y"), "kv");
  EXPECT_EQ(mode("y"), spec::RoutingMode::kKv);
  for (int i = 0; i < 2; ++i) {
    serve({x_}, {"x"});
    serve({x_, y_}, {"x", "y"});
    EXPECT_EQ(mode("y"), spec::RoutingMode::kRoundRobin) << "as the file says";
    look_for_models();
    EXPECT_EQ(mode("y"), spec::RoutingMode::kKv);
  }
}

TEST_F(SharedDecisionsTest, BeyondTheBoundANewerDecisionStillReplacesTheOlder) {
  hear(mode_key("y"), "random");
  models_.run([&](ServedModels&, FollowedFile&) {
    SharedDecisions& decisions = models_.decisions();
    for (std::size_t i = 0; i < SharedDecisions::kMostRows; ++i)
      decisions.on_row(hold_key("other", std::to_string(i)), "cordoned w");
    EXPECT_EQ(decisions.unkept(), 1U);
  });
  hear(mode_key("y"), "kv");
  hear(mode_key("x"), "kv");
  EXPECT_EQ(mode("x"), spec::RoutingMode::kKv) << "it is carried out, though it is not kept";
  serve({x_, y_}, {"x", "y"});
  look_for_models();
  EXPECT_EQ(mode("y"), spec::RoutingMode::kKv);
}

TEST_F(SharedDecisionsTest, WhatWasHeardBeforeIsNoNews) {
  look_for_models();
  hear(hold_key("x", "a"), "cordoned a");
  models_.run([](ServedModels& all, FollowedFile&) { EXPECT_TRUE(all.find("x")->changes.uncordon("a")); });
  hear(hold_key("x", "a"), "cordoned a");
  look_for_models();
  EXPECT_EQ(held("x", "a"), std::nullopt) << "rows come again with each connection";
}

TEST_F(SharedDecisionsTest, ADrainsTimeAndARemovalAreAsDecided) {
  const dispatch::DispatchHandle request = models_.begin_request("x");
  hear(hold_key("x", "a"), "drained a");
  EXPECT_EQ(place().state, dispatch::PlaceState::kDraining);
  const TimePoint usual = place().deadline;
  hear(hold_key("x", "a"), "drained:3600000 a");
  EXPECT_GT(place().deadline, usual + std::chrono::minutes(50)) << "though it is held already";
  hear(hold_key("x", "a"), "drained a");
  EXPECT_GT(place().deadline, usual + std::chrono::minutes(50)) << "its end stays as it is";
  hear(hold_key("x", "a"), "removed a");
  EXPECT_EQ(place().state, dispatch::PlaceState::kLeaving) << "its request leaves it now";
  EXPECT_EQ(held("x", "a"), dispatch::WorkerHold::kRemoved);
  EXPECT_EQ(followed(), 3U);
  models_.run([&](ServedModels& all, FollowedFile&) {
    all.find("x")->parts.dispatcher.finish(request, dispatch::Outcome::kCompleted, net::now());
  });
}

TEST_F(SharedDecisionsTest, AWorkerIsRemovedBeforeItIsThere) {
  hear(hold_key("x", "later"), "removed later");
  hear(hold_key("x", "other"), "drained:5 other");
  EXPECT_EQ(held("x", "later"), dispatch::WorkerHold::kRemoved);
  EXPECT_EQ(held("x", "other"), dispatch::WorkerHold::kRemoved);
}

TEST_F(SharedDecisionsTest, WhatIsToldIsWhatIsRead) {
  const std::vector<WorkerDecision> decisions = {
      {.worker = "a"},
      {.worker = "a b", .hold = SharedHold::kCordoned},
      {.worker = "a:1", .hold = SharedHold::kDrained},
      {.worker = "a", .hold = SharedHold::kDrained, .timeout = std::chrono::milliseconds(0)},
      {.worker = "a", .hold = SharedHold::kDrained, .timeout = WorkerDecision::kMostTimeout},
      {.worker = "a", .hold = SharedHold::kRemoved}};
  for (const WorkerDecision& decision : decisions) EXPECT_EQ(read_worker_decision(to_row(decision)), decision);
  EXPECT_EQ(to_row(decisions[0]), "free a");
  EXPECT_EQ(to_row({.worker = "a", .hold = SharedHold::kDrained, .timeout = std::chrono::microseconds(1'500'900)}),
            "drained:1500 a");
}

TEST_F(SharedDecisionsTest, RowsThatCannotBeReadChangeNothing) {
  hear(mode_key("x"), "kv");
  hear(mode_key("x"), "fastest");
  for (const std::string value : {"", "free", "free ", "gone a", "drained: a", "drained:-1 a", "drained:1s a",
                                  "drained:86400001 a", "removed:5 a"})
    hear(hold_key("x", "a"), value);
  hear("other." + peer_key("x"), "kv");
  hear("", "kv");
  EXPECT_EQ(models_.run([&](ServedModels&, FollowedFile&) { return models_.decisions().unreadable(); }), 12U);
  EXPECT_EQ(mode("x"), spec::RoutingMode::kKv);
}

}  // namespace
}  // namespace kvist::gateway::shared_decisions_test

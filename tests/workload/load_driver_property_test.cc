// Random finish orders, outcomes and delays against the invariants of LoadDriver.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "kvist/base/random.h"
#include "kvist/workload/load_driver.h"

namespace kvist::workload::load_driver_property_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct Open {
  StartTurn turn;
  TimePoint ends;
};

/// A server with random answer times and failures under one driver; checks every action the driver asks for.
class RandomServer {
 public:
  RandomServer(std::uint64_t seed, const spec::WorkloadSpec& spec, std::uint32_t concurrency, std::uint64_t run_seed)
      : random_(seed),
        spec_(spec),
        concurrency_(concurrency),
        run_seed_(run_seed),
        dataset_(spec, run_seed),
        driver_(spec, concurrency, run_seed, TimePoint{}) {}

  void run(TimePoint until) {
    while (now_ < until) step();
    driver_.stop();
    while (!open_.empty()) finish_earliest();
    EXPECT_EQ(driver_.in_flight(), 0U);
    // Starts in T never exceed places + rate x T (and the slot at 0).
    EXPECT_LE(static_cast<double>(next_id_), concurrency_ + 1 + spec_.target_rps * to_seconds(until - TimePoint{}));
    EXPECT_EQ(driver_.conversations_started(), next_id_);
  }

  /// Conversation id to the seeds of the turns that were sent, which two arms must share.
  [[nodiscard]] const std::map<std::uint64_t, std::vector<std::uint64_t>>& seeds() const { return seeds_; }

 private:
  void step() {
    const std::optional<TimePoint> wakeup = driver_.next_wakeup();
    const TimePoint first_end = earliest() == open_.end() ? TimePoint::max() : earliest()->second.ends;
    if (wakeup && *wakeup <= first_end) {
      // Sometimes the client is late.
      now_ =
          std::max(now_, *wakeup) + (random_.uniform() < 0.1 ? milliseconds(random_.uniform_int(0, 700)) : Duration{});
      accept(driver_.poll(now_));
    } else {
      ASSERT_FALSE(open_.empty()) << "nothing in flight and nothing to wait for";
      finish_earliest();
    }
    ASSERT_LE(driver_.in_flight(), concurrency_);
    ASSERT_EQ(driver_.in_flight(), open_.size());
  }

  std::map<std::uint64_t, Open>::iterator earliest() {
    return std::min_element(open_.begin(), open_.end(),
                            [](const auto& a, const auto& b) { return a.second.ends < b.second.ends; });
  }

  void finish_earliest() {
    const auto entry = earliest();
    now_ = std::max(now_, entry->second.ends);
    const StartTurn turn = entry->second.turn;
    open_.erase(entry);
    const double dice = random_.uniform();
    const TurnOutcome outcome = dice < 0.1    ? TurnOutcome::kFailed
                                : dice < 0.15 ? TurnOutcome::kAbandoned
                                              : TurnOutcome::kSucceeded;
    const std::string reply = "reply " + std::to_string(random_.next());
    auto actions = driver_.on_turn_finished(turn.conversation, reply, outcome, now_);
    if (driver_.stopped()) {
      ASSERT_TRUE(actions.empty());
      return;
    }
    const std::uint32_t turns = Conversation(spec_, dataset_, run_seed_, turn.conversation).turns();
    if (outcome == TurnOutcome::kSucceeded && turn.turn + 1 < turns) {
      ASSERT_EQ(actions.size(), 1U);
      ASSERT_EQ(actions[0].conversation, turn.conversation);
      ASSERT_EQ(actions[0].turn, turn.turn + 1);
      ASSERT_EQ(actions[0].intended, now_);
      check_history(turn, actions[0], reply);
    } else {
      for (const StartTurn& action : actions) ASSERT_EQ(action.turn, 0U);
    }
    accept(std::move(actions));
  }

  static void check_history(const StartTurn& before, const StartTurn& after, const std::string& reply) {
    ASSERT_EQ(after.messages.size(), before.messages.size() + 2);
    for (std::size_t i = 0; i < before.messages.size(); ++i) {
      ASSERT_EQ(after.messages[i].content, before.messages[i].content);
    }
    ASSERT_EQ(after.messages[before.messages.size()].content, reply);
  }

  void accept(std::vector<StartTurn> actions) {
    for (StartTurn& action : actions) {
      ASSERT_LE(action.intended, now_);
      if (action.turn == 0) {
        ASSERT_EQ(action.conversation.value(), next_id_) << "ids count up";
        ++next_id_;
      }
      const std::uint64_t id = action.conversation.value();
      seeds_[id].push_back(action.seed);
      const TimePoint ends = now_ + milliseconds(random_.uniform_int(1, 4000));
      ASSERT_TRUE(open_.emplace(id, Open{std::move(action), ends}).second) << "two turns of one conversation in flight";
    }
  }

  RandomStream random_;
  spec::WorkloadSpec spec_;
  std::uint32_t concurrency_;
  std::uint64_t run_seed_;
  Dataset dataset_;
  LoadDriver driver_;
  TimePoint now_{};
  std::uint64_t next_id_ = 0;
  std::map<std::uint64_t, Open> open_;
  std::map<std::uint64_t, std::vector<std::uint64_t>> seeds_;
};

TEST(LoadDriverProperty, InvariantsHoldUnderRandomAnswers) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  RandomStream random(seed);
  for (int round = 0; round < 30; ++round) {
    spec::WorkloadSpec spec;
    spec.starter_tokens_min = 20;
    spec.starter_tokens_max = 60;
    spec.target_rps = 0.5 + 20 * random.uniform();
    spec.turns_min = static_cast<std::uint32_t>(random.uniform_int(1, 3));
    spec.turns_max = spec.turns_min + static_cast<std::uint32_t>(random.uniform_int(0, 3));
    const auto concurrency = static_cast<std::uint32_t>(random.uniform_int(1, 20));
    const std::uint64_t run_seed = random.next();
    RandomServer one_arm(random.next(), spec, concurrency, run_seed);
    RandomServer other_arm(random.next(), spec, concurrency, run_seed);
    one_arm.run(TimePoint{} + seconds(60));
    other_arm.run(TimePoint{} + seconds(60));
    if (HasFatalFailure()) return;
    // If both arms reached the same turn of a conversation, they requested the same answer.
    for (const auto& [id, seeds] : one_arm.seeds()) {
      const auto other = other_arm.seeds().find(id);
      if (other == other_arm.seeds().end()) continue;
      const std::size_t common = std::min(seeds.size(), other->second.size());
      for (std::size_t i = 0; i < common; ++i) ASSERT_EQ(seeds[i], other->second[i]);
    }
  }
}

}  // namespace
}  // namespace kvist::workload::load_driver_property_test

#include "kvist/dispatch/worker_places.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kvist::dispatch::worker_places_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class WorkerPlacesTest : public ::testing::Test {
 protected:
  WorkerPlaces::Changes poll(bool in_use = false) {
    return places_.poll([in_use](WorkerId) { return in_use; }, now_);
  }
  PlaceState state(std::uint32_t place) const { return places_.place(WorkerId(place)).state; }

  TimePoint now_{std::chrono::seconds(1)};
  WorkerPlaces places_{2};
};

TEST_F(WorkerPlacesTest, GivesPlacesUntilNoneIsVacant) {
  EXPECT_EQ(*places_.add("a", now_), WorkerId(0));
  EXPECT_EQ(places_.vacant(), 1U);
  const auto twice = places_.add("a", now_);
  ASSERT_FALSE(twice);
  EXPECT_EQ(twice.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(twice.error().message, HasSubstr("there is a worker \"a\" already; it is serving"));
  EXPECT_EQ(*places_.add("b", now_), WorkerId(1));
  const auto beyond = places_.add("c", now_);
  ASSERT_FALSE(beyond);
  EXPECT_EQ(beyond.error().code, ErrorCode::kResourceExhausted);
  EXPECT_THAT(beyond.error().message, HasSubstr("all 2 places"));
}

TEST_F(WorkerPlacesTest, ADrainedWorkerKeepsItsPlaceUntilNothingOfItIsLeft) {
  (void)places_.add("a", now_);
  ASSERT_TRUE(places_.drain("a", now_ + std::chrono::seconds(9), now_));
  EXPECT_EQ(state(0), PlaceState::kDraining);
  EXPECT_THAT(poll(true).leave, IsEmpty()) << "its requests have time";
  const auto over = poll();
  EXPECT_THAT(over.leave, ElementsAre(WorkerId(0)));
  EXPECT_THAT(over.clear, ElementsAre(WorkerId(0)));
  EXPECT_THAT(poll().clear, IsEmpty()) << "it is said once";
  EXPECT_EQ(state(0), PlaceState::kLeaving);
  EXPECT_FALSE(places_.add("a", now_)) << "its name is taken as long";
  EXPECT_EQ(*places_.add("b", now_), WorkerId(1));
  EXPECT_FALSE(places_.add("c", now_)) << "and its place";
  places_.vacate(WorkerId(0), now_);
  EXPECT_EQ(*places_.add("a", now_), WorkerId(0));
}

TEST_F(WorkerPlacesTest, ADeadlineMakesADrainARemoval) {
  (void)places_.add("a", now_);
  (void)places_.drain("a", now_ + std::chrono::seconds(9), now_);
  now_ += std::chrono::seconds(9);
  const auto late = poll(true);
  EXPECT_THAT(late.leave, ElementsAre(WorkerId(0)));
  EXPECT_THAT(late.clear, IsEmpty()) << "its requests are still on their way out";
  EXPECT_THAT(poll(true).leave, IsEmpty());
  EXPECT_THAT(poll().clear, ElementsAre(WorkerId(0)));
}

TEST_F(WorkerPlacesTest, ACordonAndADrainCanBeTakenBackButNotARemoval) {
  (void)places_.add("a", now_);
  ASSERT_TRUE(places_.cordon("a", now_));
  EXPECT_EQ(state(0), PlaceState::kCordoned);
  ASSERT_TRUE(places_.uncordon("a", now_));
  EXPECT_EQ(state(0), PlaceState::kServing);
  ASSERT_TRUE(places_.drain("a", now_, now_));
  EXPECT_FALSE(places_.cordon("a", now_));
  ASSERT_TRUE(places_.uncordon("a", now_));
  EXPECT_THAT(poll().clear, IsEmpty());
  ASSERT_TRUE(places_.remove("a", now_));
  ASSERT_TRUE(places_.remove("a", now_)) << "a second time changes nothing";
  for (const auto& refused : {places_.uncordon("a", now_), places_.cordon("a", now_), places_.drain("a", now_, now_)}) {
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  }
  EXPECT_EQ(places_.remove("b", now_).error().code, ErrorCode::kNotFound);
}

TEST_F(WorkerPlacesTest, KnowsWhoHadAPlaceWhen) {
  (void)places_.add("a", now_);
  (void)places_.add("z", now_);
  (void)places_.remove("a", now_);
  (void)poll();
  places_.vacate(WorkerId(0), now_);
  const TimePoint then = now_;
  now_ += std::chrono::seconds(1);
  (void)places_.add("b", now_);
  EXPECT_EQ(places_.name_at(WorkerId(0), then), "a");
  EXPECT_EQ(places_.name_at(WorkerId(0), now_), "b");
  EXPECT_EQ(places_.name_at(WorkerId(0), TimePoint{}), "") << "before there was anybody";
  EXPECT_THAT(places_.names_at(now_), ElementsAre("b", "z"));
}

TEST_F(WorkerPlacesTest, ThePlaceThatWasLeftFirstIsTakenFirst) {
  WorkerPlaces places(3);
  for (const char* name : {"a", "b", "c"}) (void)places.add(name, now_);
  for (const char* name : {"c", "a"}) {
    (void)places.remove(name, now_);
    const auto left = places.poll([](WorkerId) { return false; }, now_);
    for (const WorkerId worker : left.clear) places.vacate(worker, now_);
  }
  EXPECT_EQ(*places.add("d", now_), WorkerId(2));
  EXPECT_EQ(*places.add("e", now_), WorkerId(0));
}

}  // namespace
}  // namespace kvist::dispatch::worker_places_test

#include "kvist/routing/unseen_first_tokens.h"

#include <gtest/gtest.h>

#include <chrono>

namespace kvist::routing::unseen_first_tokens_test {
namespace {

using std::chrono::milliseconds;

TimePoint at(int ms) {
  return TimePoint(std::chrono::seconds(100)) + milliseconds(ms);
}

class UnseenFirstTokensTest : public ::testing::Test {
 protected:
  RequestHandle add(std::uint64_t decision, std::uint32_t worker, int ms) {
    const RequestHandle handle =
        requests_.insert({.id = RequestId(decision), .worker = WorkerId(worker), .decision = decision});
    unseen_.await(handle, request(handle), at(ms));
    return handle;
  }
  RoutedRequest& request(RequestHandle handle) { return *requests_.find(handle); }

  RoutedRequests requests_;
  UnseenFirstTokens unseen_{3};
};

TEST_F(UnseenFirstTokensTest, AreDueInTheOrderOfTheirInstants) {
  const RequestHandle late = add(1, 0, 300);
  const RequestHandle early = add(2, 1, 100);
  const RequestHandle same = add(3, 1, 100);
  EXPECT_EQ(unseen_.due(at(99)), std::nullopt);
  EXPECT_EQ(unseen_.due(at(100)), early);
  unseen_.remove(request(early));
  EXPECT_EQ(unseen_.due(at(100)), same) << "of two at one instant the one that was routed first comes first";
  unseen_.await(same, request(same), at(400));
  EXPECT_EQ(unseen_.due(at(399)), late);
  unseen_.remove(request(late));
  EXPECT_EQ(unseen_.due(at(399)), std::nullopt);
  EXPECT_EQ(unseen_.due(at(400)), same);
  EXPECT_EQ(unseen_.size(), 1U);
}

TEST_F(UnseenFirstTokensTest, KnowWhoCameBeforeARequestOfTheSameWorker) {
  const RequestHandle first = add(1, 0, 300);
  (void)add(2, 1, 100);
  const RequestHandle third = add(3, 0, 200);
  const RequestHandle fourth = add(4, 0, 50);
  EXPECT_EQ(unseen_.before(request(first)), std::nullopt);
  EXPECT_EQ(unseen_.before(request(fourth)), first);
  unseen_.remove(request(first));
  EXPECT_EQ(unseen_.before(request(fourth)), third);
  unseen_.remove(request(third));
  EXPECT_EQ(unseen_.before(request(fourth)), std::nullopt);
}

TEST_F(UnseenFirstTokensTest, ARequestThatIsNotThereIsRemovedWithoutAnEffect) {
  const RequestHandle first = add(1, 0, 300);
  unseen_.remove(request(first));
  unseen_.remove(request(first));
  EXPECT_EQ(unseen_.size(), 0U);
  EXPECT_EQ(unseen_.due(at(1'000)), std::nullopt);
}

}  // namespace
}  // namespace kvist::routing::unseen_first_tokens_test

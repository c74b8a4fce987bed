#include "kvist/gateway/request_times.h"

#include <gtest/gtest.h>

#include <chrono>

namespace kvist::gateway::request_times_test {
namespace {

using std::chrono_literals::operator""ms;

TEST(RequestTimes, ANewWorkerInheritsNothingOfThePlacesLastOne) {
  RequestTimesTable table;
  RequestTimes& kept = table.of("gold", WorkerId(1));
  kept.first_token.observe(5ms);
  table.of("", WorkerId(1)).end_to_end.observe(7ms);
  table.of("", WorkerId(0)).end_to_end.observe(9ms);
  table.forget(WorkerId(1));
  int series = 0;
  table.for_each([&](const std::string&, WorkerId worker, const RequestTimes& times) {
    ++series;
    EXPECT_TRUE(times.first_token.empty());
    EXPECT_EQ(times.end_to_end.empty(), worker == WorkerId(1));
  });
  EXPECT_EQ(series, 3);
  EXPECT_EQ(&table.of("gold", WorkerId(1)), &kept) << "what a request under way may still point to stays where it is";
}

}  // namespace
}  // namespace kvist::gateway::request_times_test

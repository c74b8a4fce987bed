#include "kvist/simulation/step_times.h"

#include <gtest/gtest.h>

#include <vector>

namespace kvist::simulation::step_times_test {
namespace {

std::vector<int> read(StepTimes::Reader& reader) {
  std::vector<int> read;
  reader.read([&](TimePoint at) { read.push_back(static_cast<int>(at.time_since_epoch().count())); });
  return read;
}

// Readers that begin anywhere, also at the border of a block, see what comes after them.
TEST(StepTimes, AReaderSeesWhatIsAddedAfterIt) {
  StepTimes times;
  std::vector<StepTimes::Reader> readers;
  constexpr int kInstants = 1'000;
  for (int i = 0; i < kInstants; ++i) {
    readers.push_back(times.reader());
    times.add(TimePoint(Duration(i)));
  }
  for (int i = 0; i < kInstants; ++i) {
    const std::vector<int> seen = read(readers[static_cast<std::size_t>(i)]);
    ASSERT_EQ(seen.size(), static_cast<std::size_t>(kInstants - i));
    EXPECT_EQ(seen.front(), i);
    EXPECT_EQ(seen.back(), kInstants - 1);
    EXPECT_TRUE(read(readers[static_cast<std::size_t>(i)]).empty()) << "an instant is read once";
  }
  times.add(TimePoint(Duration(kInstants)));
  EXPECT_EQ(read(readers.front()), std::vector<int>{kInstants});
  StepTimes::Reader none;
  EXPECT_TRUE(read(none).empty());
}

}  // namespace
}  // namespace kvist::simulation::step_times_test

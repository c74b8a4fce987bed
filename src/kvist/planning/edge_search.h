// Searches for the number from which on a property fails, when testing a number is expensive and may give a wrong
// result.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "kvist/base/error.h"

namespace kvist::planning {

/// The result of testing one number.
struct Look {
  bool holds = false;  ///< the most likely result
  bool sure = false;   ///< the result is certain enough
};

struct EdgeSearchOptions {
  std::uint32_t start = 1;         ///< the first number to test
  std::uint32_t limit = 100'000;   ///< the largest number to test
  double growth = 2;               ///< factor from a number to the next while both sides of the edge are searched for
  double resolution = 0.01;        ///< numbers that differ by less than this share count as neighbours
  std::uint32_t probe_from = 0;    ///< no tests for holes below it
  std::uint32_t probes_below = 6;  ///< further tests below the edge, for holes
  std::uint32_t probes_above = 3;  ///< further tests above it, up to `probe_to`, for islands
  std::uint32_t probe_to = 0;      ///< 0: no tests above
};

/// The edge, with its interval.
struct Edge {
  std::uint32_t last = 0;       ///< holds here and at every tested number below; 0: nowhere
  std::uint32_t sure_last = 0;  ///< certainly holds up to here: no tested number up to it is in doubt or fails
  std::uint32_t at_most =
      0;                  ///< the next number certainly fails, or is beyond the limit, so the edge is not above this
  bool at_limit = false;  ///< holds at the limit; the edge may be anywhere above
  std::vector<std::uint32_t> holds_again;  ///< tested numbers above the edge at which it holds again
  std::vector<std::uint32_t> looked_at;    ///< all tested numbers, ascending
};

/// Finds the first edge by growing steps and bisection. Then it tests numbers below for a hole that bisection may have
/// missed (and moves there if there is one), and above for islands. Last it bisects the doubtful zone on both sides of
/// the edge for the interval. Each number is tested once. The edge is found up to the resolution, so that one at many
/// thousands does not need many more tests than one at a hundred.
[[nodiscard]] Result<Edge> find_edge(const std::function<Result<Look>(std::uint32_t)>& look,
                                     const EdgeSearchOptions& options);

}  // namespace kvist::planning

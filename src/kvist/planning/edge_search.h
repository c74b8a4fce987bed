// Where a property of the whole numbers begins to fail, when each look at a number is dear and may be wrong.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "kvist/base/error.h"

namespace kvist::planning {

/// What a look at one number says.
struct Look {
  bool holds = false;  ///< the best guess
  bool sure = false;   ///< the guess is beyond reasonable doubt
};

struct EdgeSearchOptions {
  std::uint32_t start = 1;         ///< where to look first
  std::uint32_t limit = 100'000;   ///< no look beyond it
  double growth = 2;               ///< from a number to the next while looking for both sides of the edge
  double resolution = 0.01;        ///< numbers that differ by less than this share count as neighbours
  std::uint32_t probe_from = 0;    ///< no probe below it
  std::uint32_t probes_below = 6;  ///< further looks below the edge: does it hold there, too?
  std::uint32_t probes_above = 3;  ///< and above it: does it hold again? Up to `probe_to`
  std::uint32_t probe_to = 0;      ///< 0: none above
};

/// The edge, and how sure it is.
struct Edge {
  std::uint32_t last = 0;       ///< holds here and at every number looked at below; 0: nowhere
  std::uint32_t sure_last = 0;  ///< surely holds up to here: no number looked at up to it is in doubt or fails
  std::uint32_t at_most = 0;    ///< the next number surely fails, or is beyond the limit: the edge is not beyond it
  bool at_limit = false;        ///< holds at the limit: the edge may be anywhere beyond
  std::vector<std::uint32_t> holds_again;  ///< numbers looked at above the edge where it holds nevertheless
  std::vector<std::uint32_t> looked_at;    ///< all, ascending
};

/// Finds the first edge by growing steps and bisection, then looks below for a hole that bisection jumped over (and
/// moves there if there is one) and above for islands, then bisects the doubtful zone on both sides of the edge for the
/// interval. Each number is looked at once. The edge is found to the resolution, so that one of
/// many thousands does not cost many more looks than one of a hundred.
[[nodiscard]] Result<Edge> find_edge(const std::function<Result<Look>(std::uint32_t)>& look,
                                     const EdgeSearchOptions& options);

}  // namespace kvist::planning

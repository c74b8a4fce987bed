#include "kvist/planning/edge_search.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "kvist/base/check.h"

namespace kvist::planning {
namespace {

/// The whole search; `looks_` is its memory.
class EdgeSearch {
 public:
  EdgeSearch(const std::function<Result<Look>(std::uint32_t)>& look, const EdgeSearchOptions& options)
      : look_(look), options_(options) {}

  Result<Edge> find() {
    KVIST_TRY_VOID(bracket());
    KVIST_TRY_VOID(bisect());
    KVIST_TRY_VOID(probe_below());
    KVIST_TRY_VOID(probe_above());
    Edge edge;
    KVIST_TRY(edge.sure_last, sure_last());
    KVIST_TRY(edge.at_most, at_most());
    conclude(edge);
    return edge;
  }

 private:
  /// The looks for the interval may have found numbers that fail below the edge: the edge is below them.
  void conclude(Edge& edge) const {
    bool fails_below = false;
    bool surely_fails_below = false;
    for (const auto& [number, seen] : looks_) {
      edge.looked_at.push_back(number);
      if (!seen.holds) {
        if (seen.sure && !surely_fails_below) edge.at_most = std::min(edge.at_most, number - 1);
        surely_fails_below |= seen.sure;
        fails_below = true;
      } else if (!fails_below) {
        edge.last = number;
      } else if (number > edge.at_most) {
        edge.holds_again.push_back(number);
      }
    }
    edge.at_limit = edge.last == options_.limit;
  }

  Result<Look> at(std::uint32_t number) {
    if (const auto found = looks_.find(number); found != looks_.end()) return found->second;
    KVIST_TRY(const Look seen, look_(number));
    return looks_.emplace(number, seen).first->second;
  }

  bool neighbours(std::uint32_t low, std::uint32_t high) const {
    return high - low <= std::max(1.0, options_.resolution * low);
  }

  std::uint32_t larger(std::uint32_t number) const {
    const double next = std::ceil(number * options_.growth);
    return next >= options_.limit ? options_.limit : std::max(number + 1, static_cast<std::uint32_t>(next));
  }
  std::uint32_t smaller(std::uint32_t number) const {
    return std::min(number - 1, static_cast<std::uint32_t>(number / options_.growth));
  }

  /// low_ holds (or is 0), high_ does not (or is beyond the limit).
  Result<void> bracket() {
    std::uint32_t number = std::clamp(options_.start, 1U, options_.limit);
    KVIST_TRY(Look seen, at(number));
    if (seen.holds) {
      while (seen.holds && number < options_.limit) {
        low_ = number;
        number = larger(number);
        KVIST_TRY(seen, at(number));
      }
      if (seen.holds) low_ = number;
      high_ = seen.holds ? options_.limit + 1 : number;
      return {};
    }
    while (!seen.holds && number > 0) {
      high_ = number;
      number = smaller(number);
      if (number > 0) {
        KVIST_TRY(seen, at(number));
      }
    }
    low_ = number;
    return {};
  }

  Result<void> bisect() {
    while (low_ < options_.limit && !neighbours(low_, high_)) {
      const std::uint32_t middle = low_ + (high_ - low_) / 2;
      KVIST_TRY(const Look seen, at(middle));
      (seen.holds ? low_ : high_) = middle;
    }
    return {};
  }

  /// The middle of the widest gap between numbers looked at within [from, to].
  std::optional<std::uint32_t> middle_of_widest_gap(std::uint32_t from, std::uint32_t to) const {
    std::optional<std::uint32_t> middle;
    std::uint32_t widest = 1;
    std::uint32_t before = from;
    const auto consider = [&](std::uint32_t next) {
      if (next > before && next - before > widest && !neighbours(before, next)) {
        widest = next - before;
        middle = before + widest / 2;
      }
      before = std::max(before, next);
    };
    for (const auto& [number, seen] : looks_) {
      if (number > from && number < to) consider(number);
    }
    consider(to);
    return middle;
  }

  Result<void> probe_below() {
    for (std::uint32_t probe = 0; probe < options_.probes_below; ++probe) {
      const auto number = middle_of_widest_gap(options_.probe_from, low_);
      if (!number) break;
      KVIST_TRY(const Look seen, at(*number));
      if (seen.holds) continue;
      // A hole: what bisection found is an island beyond it.
      high_ = *number;
      low_ = 0;
      for (const auto& [known, one] : looks_) {
        if (known < high_ && one.holds) low_ = known;
      }
      KVIST_TRY_VOID(bisect());
    }
    return {};
  }

  Result<void> probe_above() {
    const std::uint32_t to = std::min(options_.probe_to, options_.limit);
    for (std::uint32_t probe = 0; probe < options_.probes_above && to > high_; ++probe) {
      const auto number = probe == 0 ? to : middle_of_widest_gap(high_, to);
      if (!number) break;
      KVIST_TRY_VOID(at(*number));
    }
    return {};
  }

  Result<std::uint32_t> sure_last() {
    std::uint32_t sure = 0;
    std::uint32_t doubtful = low_ + 1;
    for (const auto& [number, seen] : looks_) {
      if (number > low_) break;
      if (!seen.sure) {
        doubtful = number;
        break;
      }
      sure = number;
    }
    while (doubtful <= low_ && !neighbours(sure, doubtful)) {
      const std::uint32_t middle = sure + (doubtful - sure) / 2;
      KVIST_TRY(const Look seen, at(middle));
      (seen.holds && seen.sure ? sure : doubtful) = middle;
    }
    return sure;
  }

  Result<std::uint32_t> at_most() {
    if (low_ >= options_.limit) return options_.limit;
    std::uint32_t doubtful = low_;
    std::uint32_t sure = options_.limit + 1;
    for (const auto& [number, seen] : looks_) {
      if (number <= low_) continue;
      if (!seen.holds && seen.sure) {
        sure = number;
        break;
      }
      doubtful = number;
    }
    while (sure > options_.limit && doubtful < options_.limit) {
      doubtful = std::max(doubtful, high_);
      const std::uint32_t next = larger(doubtful);
      KVIST_TRY(const Look seen, at(next));
      (!seen.holds && seen.sure ? sure : doubtful) = next;
    }
    while (!neighbours(doubtful, sure)) {
      const std::uint32_t middle = doubtful + (sure - doubtful) / 2;
      KVIST_TRY(const Look seen, at(middle));
      (!seen.holds && seen.sure ? sure : doubtful) = middle;
    }
    return sure - 1;
  }

  const std::function<Result<Look>(std::uint32_t)>& look_;
  const EdgeSearchOptions options_;
  std::map<std::uint32_t, Look> looks_;
  std::uint32_t low_ = 0;
  std::uint32_t high_ = 0;
};

}  // namespace

Result<Edge> find_edge(const std::function<Result<Look>(std::uint32_t)>& look, const EdgeSearchOptions& options) {
  KVIST_CHECK(options.limit >= 1 && options.growth > 1, "an edge search needs room and steps");
  return EdgeSearch(look, options).find();
}

}  // namespace kvist::planning

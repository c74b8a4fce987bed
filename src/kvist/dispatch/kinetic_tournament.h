// Which of many lines are the highest at a time that goes on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kvist/base/time.h"

namespace kvist::dispatch {

/// A kinetic tournament (Basch, Guibas and Hershberger, "Data structures for mobile data", 1997): the inner nodes of a
/// binary tree have the highest of the lines below them, and until when it stays that. Two lines cross at most once, at
/// a time that is known in advance, so only nodes whose time has come, and those above a line that came, went or
/// changed, are compared again. A change costs the logarithm of the number of lines, as does each of the highest that
/// is asked for. The order is that of a scan of all lines. Memory: as for the most lines at once. Threads: one.
class KineticTournament {
 public:
  /// The place of a line in the tree.
  using Seat = std::uint32_t;
  struct Line {
    std::uint64_t key = 0;   ///< of two that are equally high the lower one comes first; no two lines have the same
    TimePoint zero;          ///< where the line crosses 0
    double ms_per_unit = 1;  ///< after how many milliseconds it is higher by 1. Requires: > 0
  };

  Seat add(const Line& line);
  /// Requires: the seat is that of a line, as for the next.
  void set(Seat seat, const Line& line);
  void remove(Seat seat);
  /// The keys of the highest, at most so many, the highest first. Requires: `now` never decreases.
  [[nodiscard]] std::vector<std::uint64_t> highest(std::size_t count, TimePoint now);

  /// How often two lines were compared so far.
  [[nodiscard]] std::uint64_t comparisons() const { return comparisons_; }

 private:
  static constexpr Seat kNobody = static_cast<Seat>(-1);
  struct Node {
    Seat winner = kNobody;
    TimePoint until = TimePoint::max();  // never later than that of a node below
  };

  void grow();
  /// The seat's line is another one: the nodes above it are due.
  void take_seat(Seat seat, Seat winner);
  void refresh(std::size_t node, TimePoint now);
  [[nodiscard]] double height(Seat seat, TimePoint now) const;
  [[nodiscard]] bool is_above(Seat one, Seat other, TimePoint now);
  /// When the loser passes the winner.
  [[nodiscard]] TimePoint crossing(Seat winner, Seat loser, TimePoint now) const;

  std::size_t seats_ = 0;    // a power of two
  std::vector<Node> nodes_;  // 1 is the root, 2 i and 2 i + 1 are below i; the leaves, by seat, begin at seats_
  std::vector<Line> lines_;  // by seat
  std::vector<Seat> free_;
  std::uint64_t comparisons_ = 0;
};

}  // namespace kvist::dispatch

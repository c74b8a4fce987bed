#include "kvist/dispatch/kinetic_tournament.h"

#include <algorithm>

namespace kvist::dispatch {

KineticTournament::Seat KineticTournament::add(const Line& line) {
  if (free_.empty()) grow();
  const Seat seat = free_.back();
  free_.pop_back();
  set(seat, line);
  return seat;
}

void KineticTournament::set(Seat seat, const Line& line) {
  lines_[seat] = line;
  take_seat(seat, seat);
}

void KineticTournament::remove(Seat seat) {
  take_seat(seat, kNobody);
  free_.push_back(seat);
}

// All inner nodes are due then. Twice as many seats each time, so that this costs a line no more than its own nodes do.
void KineticTournament::grow() {
  const std::size_t before = seats_;
  seats_ = std::max<std::size_t>(2, 2 * seats_);
  lines_.resize(seats_);
  nodes_.assign(2 * seats_, {.winner = kNobody, .until = TimePoint::min()});
  for (std::size_t seat = 0; seat < seats_; ++seat)
    nodes_[seats_ + seat] = {.winner = seat < before ? static_cast<Seat>(seat) : kNobody, .until = TimePoint::max()};
  for (std::size_t seat = seats_; seat > before; --seat) free_.push_back(static_cast<Seat>(seat - 1));
}

void KineticTournament::take_seat(Seat seat, Seat winner) {
  std::size_t node = seats_ + seat;
  nodes_[node].winner = winner;
  for (node /= 2; node > 0 && nodes_[node].until != TimePoint::min(); node /= 2) nodes_[node].until = TimePoint::min();
}

void KineticTournament::refresh(std::size_t node, TimePoint now) {
  if (now < nodes_[node].until) return;
  const std::size_t left = 2 * node;
  const std::size_t right = left + 1;
  refresh(left, now);
  refresh(right, now);
  const bool is_left = is_above(nodes_[left].winner, nodes_[right].winner, now);
  const Seat winner = nodes_[is_left ? left : right].winner;
  const Seat loser = nodes_[is_left ? right : left].winner;
  nodes_[node] = {.winner = winner,
                  .until = std::min({nodes_[left].until, nodes_[right].until, crossing(winner, loser, now)})};
}

double KineticTournament::height(Seat seat, TimePoint now) const {
  return to_milliseconds(now - lines_[seat].zero) / lines_[seat].ms_per_unit;
}

bool KineticTournament::is_above(Seat one, Seat other, TimePoint now) {
  if (one == kNobody || other == kNobody) return other == kNobody;
  ++comparisons_;
  const double height = this->height(one, now);
  const double other_height = this->height(other, now);
  return height != other_height ? height > other_height : lines_[one].key < lines_[other].key;
}

TimePoint KineticTournament::crossing(Seat winner, Seat loser, TimePoint now) const {
  if (loser == kNobody) return TimePoint::max();
  const double gains = 1 / lines_[loser].ms_per_unit - 1 / lines_[winner].ms_per_unit;
  if (gains <= 0) return TimePoint::max();
  // A nanosecond early, as the time is rounded.
  return now + from_milliseconds((height(winner, now) - height(loser, now)) / gains) - Duration(1);
}

// The highest of all is the root's. Who comes next has lost to one that was taken, so that it is the winner of a
// subtree beside the way from the root to the seat of one of these.
std::vector<std::uint64_t> KineticTournament::highest(std::size_t count, TimePoint now) {
  std::vector<std::uint64_t> keys;
  if (nodes_.empty()) return keys;
  refresh(1, now);
  const auto is_below = [&](std::size_t one, std::size_t other) {
    return is_above(nodes_[other].winner, nodes_[one].winner, now);
  };
  std::vector<std::size_t> beside;  // a heap
  const auto take = [&](std::size_t node) {
    if (nodes_[node].winner == kNobody) return;
    beside.push_back(node);
    std::ranges::push_heap(beside, is_below);
  };
  take(1);
  while (keys.size() < count && !beside.empty()) {
    std::ranges::pop_heap(beside, is_below);
    std::size_t node = beside.back();
    beside.pop_back();
    const Seat winner = nodes_[node].winner;
    keys.push_back(lines_[winner].key);
    while (node < seats_) {
      const bool is_left = nodes_[2 * node].winner == winner;
      take(2 * node + (is_left ? 1 : 0));
      node = 2 * node + (is_left ? 0 : 1);
    }
  }
  return keys;
}

}  // namespace kvist::dispatch

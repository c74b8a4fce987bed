#include "kvist/workload/arrival_profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

namespace kvist::workload {
namespace {

constexpr double kEndless = std::numeric_limits<double>::infinity();

}  // namespace

Result<void> check_profile(const std::vector<spec::ArrivalPoint>& profile) {
  Duration before{};
  double most = 0;
  for (const spec::ArrivalPoint& point : profile) {
    if (point.at < before) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("arrival_profile: {:g} s comes after {:g} s: want ascending instants",
                              to_seconds(point.at), to_seconds(before)));
    }
    if (!(point.share >= 0 && point.share <= spec::kMaxArrivalShare)) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("arrival_profile: share {}; want 0 to {}", point.share, spec::kMaxArrivalShare));
    }
    before = point.at;
    most = std::max(most, point.share);
  }
  if (!profile.empty() && most <= 0) {
    return fail(ErrorCode::kInvalidArgument, "arrival_profile: every share is 0, so that nothing ever arrives");
  }
  return {};
}

std::vector<spec::ArrivalPoint> scaled_from(std::vector<spec::ArrivalPoint> profile, Duration at, double factor) {
  const auto after = std::ranges::upper_bound(profile, at, {}, &spec::ArrivalPoint::at);
  double share = 1;  // at the instant, or right behind a step that is there
  if (after != profile.begin()) {
    share = std::prev(after)->share;
    if (after != profile.end()) {
      const double passed = to_seconds(at - std::prev(after)->at) / to_seconds(after->at - std::prev(after)->at);
      share += (after->share - share) * passed;
    }
  } else if (!profile.empty()) {
    share = profile.front().share;
  }
  for (auto point = after; point != profile.end(); ++point) point->share *= factor;
  profile.insert(after, {{.at = at, .share = share}, {.at = at, .share = share * factor}});
  return profile;
}

ArrivalProfile::ArrivalProfile(const std::vector<spec::ArrivalPoint>& profile) {
  Piece next;  // begins where the one before ends
  if (!profile.empty()) next.share = profile.front().share;
  for (const spec::ArrivalPoint& point : profile) {
    const double at = to_seconds(point.at);
    next.length = at - next.from;
    next.share_end = point.share;
    if (next.length > 0) {
      pieces_.push_back(next);
      next.area += (next.share + next.share_end) / 2 * next.length;
    }
    next.from = at;
    next.share = point.share;
  }
  next.length = kEndless;
  next.share_end = next.share;
  pieces_.push_back(next);
}

double ArrivalProfile::area_until(double seconds) const {
  double area = 0;
  for (const Piece& piece : pieces_) {
    if (seconds <= piece.from) break;
    const double inside = std::min(seconds - piece.from, piece.length);
    const double slope = std::isinf(piece.length) ? 0 : (piece.share_end - piece.share) / piece.length;
    area = piece.area + inside * (piece.share + slope * inside / 2);
  }
  return area;
}

double ArrivalProfile::peak_until(double seconds) const {
  double peak = 0;
  for (const Piece& piece : pieces_) {
    if (piece.from > seconds) break;
    const double inside = std::min(seconds - piece.from, piece.length);
    const double slope = std::isinf(piece.length) ? 0 : (piece.share_end - piece.share) / piece.length;
    peak = std::max({peak, piece.share, slope == 0 ? piece.share : piece.share + slope * inside});
  }
  return peak;
}

std::optional<double> ArrivalProfile::instant_of(double area) const {
  for (const Piece& piece : pieces_) {
    const double rest = area - piece.area;
    const double whole = std::isinf(piece.length) ? kEndless : (piece.share + piece.share_end) / 2 * piece.length;
    if (rest > whole) continue;
    if (rest <= 0) return piece.from;
    const double slope = std::isinf(piece.length) ? 0 : (piece.share_end - piece.share) / piece.length;
    // share x + slope x^2 / 2 = rest, in the form that does not subtract two large numbers.
    const double root = std::sqrt(std::max(0.0, piece.share * piece.share + 2 * slope * rest));
    if (piece.share + root <= 0) return std::nullopt;
    return piece.from + 2 * rest / (piece.share + root);
  }
  return std::nullopt;
}

}  // namespace kvist::workload

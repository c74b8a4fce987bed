#include "kvist/analysis/arrival_law.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <queue>
#include <utility>
#include <vector>

#include "kvist/base/check.h"
#include "kvist/base/statistics.h"
#include "kvist/workload/arrival_profile.h"
#include "kvist/workload/open_arrivals.h"

namespace kvist::analysis {
namespace {

using spec::ArrivalKind;

constexpr double kLeastProbability = 0.01;
constexpr double kLeastShareSent = 0.98;
constexpr Duration kOverdue = std::chrono::seconds(1);
constexpr std::size_t kLeastGaps = 20;
/// By how much the moment of sending may move a gap: as late as kPunctual of the sends were, but at least the rounding
/// of instants and at most this much, or this share of the mean gap. Never half a mean gap and more, which would let
/// any law pass that has the right mean.
constexpr double kPunctual = 0.99;
constexpr double kLeastShift_s = 1e-6;
constexpr double kMostShift_s = 1e-3;
constexpr double kMostShiftOfGap = 0.01;
constexpr double kMostShiftOfShortGap = 0.5;
/// An interval of the dispersion holds so many arrivals on average, and there are at least so many intervals.
constexpr double kArrivalsPerInterval = 10;
constexpr std::size_t kLeastIntervals = 5;

/// Numerical recipes: a series below shape + 1, above it a continued fraction.
double series_of(double shape, double x) {
  double term = 1 / shape;
  double sum = term;
  for (int n = 1; n < 10'000 && std::abs(term) > std::abs(sum) * 1e-15; ++n) {
    term *= x / (shape + n);
    sum += term;
  }
  return sum * std::exp(-x + shape * std::log(x) - std::lgamma(shape));
}

double fraction_of(double shape, double x) {
  constexpr double kTiny = 1e-300;
  double b = x + 1 - shape;
  double c = 1 / kTiny;
  double d = 1 / b;
  double value = d;
  for (int n = 1; n < 10'000; ++n) {
    const double a = -n * (n - shape);
    b += 2;
    d = a * d + b;
    if (std::abs(d) < kTiny) d = kTiny;
    d = 1 / d;
    c = b + a / c;
    if (std::abs(c) < kTiny) c = kTiny;
    const double factor = c * d;
    value *= factor;
    if (std::abs(factor - 1) < 1e-15) break;
  }
  return value * std::exp(-x + shape * std::log(x) - std::lgamma(shape));
}

/// An arrival in the profile's time, in seconds since the start of the load.
struct Arrival {
  double due = 0;
  double sent = 0;
};

/// The share of gaps below one of `relative` times the mean.
double law_below(const spec::ArrivalSpec& spec, double relative) {
  if (spec.kind != ArrivalKind::kBursty) return 1 - std::exp(-relative);
  const double shape = 1 / (spec.variation * spec.variation);
  return gamma_share_below(shape, relative * shape);
}

/// The arrivals whose gaps have a law: of those that were due at one instant, in a burst, the first that was sent.
std::vector<Arrival> with_gaps(const std::vector<Arrival>& arrivals, ArrivalKind kind) {
  std::vector<Arrival> firsts;
  for (std::size_t i = 0; i < arrivals.size(); ++i) {
    const bool continues = kind == ArrivalKind::kBursts && i > 0 && arrivals[i].due <= arrivals[i - 1].due;
    if (!continues) firsts.push_back(arrivals[i]);
  }
  std::ranges::sort(firsts, {}, &Arrival::sent);
  return firsts;
}

/// A client sends one request after the other and instants are whole nanoseconds, so short gaps are not as they were
/// drawn: of variation 3 at 60/s 47 % are below 0.1 ms and 13 % below a nanosecond.
double gap_shift_s(const std::vector<Arrival>& arrivals, double mean_gap_s) {
  std::vector<double> late;
  late.reserve(arrivals.size());
  for (const Arrival& arrival : arrivals) late.push_back(std::max(0.0, arrival.sent - arrival.due));
  std::ranges::sort(late);
  const double most = std::min(std::max(kMostShift_s, kMostShiftOfGap * mean_gap_s), kMostShiftOfShortGap * mean_gap_s);
  return std::min(std::max(quantile_of_sorted(late, kPunctual), kLeastShift_s), most);
}

/// The least distance between the law and gaps of which these are each moved by at most `shift_s`: whatever they were,
/// the share of them up to x is at most that of these up to x + shift, and at least that up to x - shift.
double distance_from_law(const std::vector<double>& sorted_gaps, const spec::ArrivalSpec& spec, double mean_gap_s,
                         double shift_s) {
  const auto n = static_cast<double>(sorted_gaps.size());
  double distance = 0;
  for (std::size_t i = 0; i < sorted_gaps.size(); ++i) {
    const double low = law_below(spec, std::max(0.0, sorted_gaps[i] - shift_s) / mean_gap_s);
    const double high = law_below(spec, (sorted_gaps[i] + shift_s) / mean_gap_s);
    distance = std::max({distance, low - static_cast<double>(i) / n, static_cast<double>(i + 1) / n - high});
  }
  return distance;
}

void test_gaps(const std::vector<Arrival>& arrivals, const spec::ArrivalSpec& spec, double mean_gap_s,
               ArrivalTest& test) {
  std::vector<double> gaps;
  for (std::size_t i = 1; i < arrivals.size(); ++i) gaps.push_back(arrivals[i].sent - arrivals[i - 1].sent);
  if (gaps.size() < kLeastGaps) return;
  const Distribution d = describe(gaps);
  if (d.mean > 0) test.gap_variation = d.standard_deviation / d.mean;
  if (spec.kind == ArrivalKind::kConstant) return;
  std::ranges::sort(gaps);
  const double shift_s = gap_shift_s(arrivals, mean_gap_s);
  const double distance = distance_from_law(gaps, spec, mean_gap_s, shift_s);
  test.gap_tolerance_ms = 1e3 * shift_s;
  test.ks_distance = distance;
  test.ks_probability = kolmogorov_probability(distance, gaps.size());
}

void test_counts(const std::vector<Arrival>& arrivals, double length_s, double rate, ArrivalTest& test) {
  const double interval_s = kArrivalsPerInterval / rate;
  const auto intervals = static_cast<std::size_t>(length_s / interval_s);
  if (intervals < kLeastIntervals) return;
  std::vector<double> counts(intervals);
  for (const Arrival& arrival : arrivals) {
    const auto interval = static_cast<std::size_t>(std::max(0.0, arrival.sent) / interval_s);
    if (interval < intervals) ++counts[interval];
  }
  const Distribution d = describe(counts);
  if (d.mean > 0) test.dispersion = d.standard_deviation * d.standard_deviation / d.mean;
}

void expect(const spec::ArrivalSpec& spec, ArrivalTest& test) {
  switch (spec.kind) {
    case ArrivalKind::kConstant:
      test.expected_gap_variation = test.expected_dispersion = 0;
      break;
    case ArrivalKind::kBursty:
      test.expected_gap_variation = spec.variation;
      test.expected_dispersion = spec.variation * spec.variation;
      break;
    case ArrivalKind::kBursts:
      test.expected_dispersion = spec.burst_size;
      break;
    case ArrivalKind::kPoisson:
    case ArrivalKind::kClosed:
      break;
  }
}

/// When each conversation's last turn ended.
std::map<std::uint64_t, TimePoint> ends_of(const results::LevelRecord& level) {
  std::map<std::uint64_t, TimePoint> ends;
  for (const workload::TurnSample& turn : level.turns) {
    TimePoint& end = ends[turn.conversation.value()];
    end = std::max(end, turn.ended);
  }
  return ends;
}

/// The instant from which on a place was free behind `at`; nothing if one was free then.
std::optional<TimePoint> place_free_behind(const results::LevelRecord& level, const spec::ArrivalSpec& spec,
                                           TimePoint at) {
  std::size_t alive = 0;
  TimePoint place_free = TimePoint::max();
  for (const auto& [id, end] : ends_of(level)) {
    if (end <= at) continue;
    ++alive;
    place_free = std::min(place_free, end);
  }
  if (alive < spec.max_conversations) return std::nullopt;
  return place_free;
}

/// The arrivals of the schedule, which follows from the seed, that were due behind `last` and before `until`.
std::uint64_t due_behind(const results::LevelRecord& level, const spec::ArrivalSpec& spec, double ordered_per_s,
                         const workload::TurnSample& last, TimePoint until) {
  spec::ArrivalSpec unlimited = spec;
  unlimited.max_conversations = std::numeric_limits<std::uint32_t>::max();
  workload::OpenArrivals schedule(unlimited, ordered_per_s, level.seed, level.started);
  std::optional<TimePoint> due;
  for (std::uint64_t id = 0; id <= last.conversation.value(); ++id) due = schedule.try_start(TimePoint::max());
  if (!due) return 0;
  // The load's own start may be a little behind the level's.
  const Duration shift = last.intended - *due;
  if (shift < Duration(0) || shift > kOverdue) return 0;
  std::uint64_t behind = 0;
  while (schedule.next_start() && *schedule.next_start() < until - shift) {
    (void)schedule.try_start(until - shift);
    ++behind;
  }
  return behind;
}

/// The arrivals that were refused behind the last that was accepted, whose ids are in no turn: while all places are
/// taken each arrival is refused.
std::uint64_t refused_behind_the_last(const results::LevelRecord& level, const spec::ArrivalSpec& spec,
                                      double ordered_per_s, const workload::TurnSample& last) {
  if (spec.when_full != spec::WhenFull::kRefuse) return 0;
  const std::optional<TimePoint> free = place_free_behind(level, spec, last.intended);
  return free ? due_behind(level, spec, ordered_per_s, last, std::min(*free, level.measure_to)) : 0;
}

/// The arrivals that waited for a place when the window ended, and so were never sent.
std::uint64_t waiting_at_the_end(const results::LevelRecord& level, const spec::ArrivalSpec& spec, double ordered_per_s,
                                 const workload::TurnSample& last) {
  if (spec.when_full != spec::WhenFull::kWait || !place_free_behind(level, spec, level.measure_to)) return 0;
  return due_behind(level, spec, ordered_per_s, last, level.measure_to);
}

/// Conversations take places in the order in which they are due: one that finds none free takes the first that is.
std::uint64_t sent_late(const results::LevelRecord& level, const spec::ArrivalSpec& spec) {
  if (spec.when_full != spec::WhenFull::kWait) return 0;
  const std::map<std::uint64_t, TimePoint> ends = ends_of(level);
  std::vector<std::pair<TimePoint, TimePoint>> conversations;  // due, ended
  for (const workload::TurnSample& turn : level.turns) {
    if (turn.turn == 0) conversations.emplace_back(turn.intended, ends.at(turn.conversation.value()));
  }
  std::ranges::sort(conversations);
  std::priority_queue<TimePoint, std::vector<TimePoint>, std::greater<>> taken;  // until when each place is
  std::uint64_t waited = 0;
  for (const auto& [due, ended] : conversations) {
    while (!taken.empty() && taken.top() <= due) taken.pop();
    if (taken.size() >= spec.max_conversations) {
      taken.pop();
      ++waited;
    }
    taken.push(ended);
  }
  return waited;
}

/// The conversation that was due last, by its id: of open arrivals these count from 0, refused ones included.
const workload::TurnSample* last_begun(const results::LevelRecord& level) {
  const workload::TurnSample* last = nullptr;
  for (const workload::TurnSample& turn : level.turns) {
    if (turn.turn != 0 || turn.intended < level.started || turn.intended > level.measure_to) continue;
    if (last == nullptr || turn.conversation > last->conversation) last = &turn;
  }
  return last;
}

}  // namespace

double gamma_share_below(double shape, double x) {
  KVIST_CHECK(shape > 0 && x >= 0, "the gamma distribution has a shape above 0");
  if (x <= 0) return 0;
  return std::clamp(x < shape + 1 ? series_of(shape, x) : 1 - fraction_of(shape, x), 0.0, 1.0);
}

double kolmogorov_probability(double distance, std::size_t n) {
  const double root = std::sqrt(static_cast<double>(n));
  const double lambda = (root + 0.12 + 0.11 / root) * distance;
  if (lambda < 0.2) return 1;
  double sum = 0;
  for (int k = 1; k <= 100; ++k) {
    const double term = std::exp(-2.0 * k * k * lambda * lambda);
    sum += k % 2 == 1 ? term : -term;
    if (term < 1e-12) break;
  }
  return std::clamp(2 * sum, 0.0, 1.0);
}

bool ArrivalTest::law_refused() const {
  return ks_distance && *ks_distance > kAcceptedDistance && *ks_probability < kLeastProbability;
}

double ArrivalTest::share_in_time() const {
  const double due = static_cast<double>(arrivals) + static_cast<double>(refused + held_back.not_sent);
  if (due <= 0) return 0;
  const std::uint64_t late = std::max<std::uint64_t>(overdue, held_back.sent_late);
  return (static_cast<double>(sent) - static_cast<double>(std::min<std::uint64_t>(late, sent))) / due;
}

bool ArrivalTest::as_ordered() const {
  return scheduled_per_s && sent_per_s && share_in_time() >= kLeastShareSent && !law_refused();
}

ArrivalTest test_arrivals(const results::LevelRecord& level, const spec::ArrivalSpec& spec, double ordered_per_s,
                          const std::optional<workload::HeldBack>& held_back) {
  ArrivalTest test;
  test.held_back = held_back.value_or(workload::HeldBack{});
  test.kind = spec.kind;
  expect(spec, test);
  const double length_s = to_seconds(level.measure_to - level.started);
  const workload::ArrivalProfile profile(spec.profile);
  const double area_s = profile.area_until(length_s);
  if (length_s <= 0 || ordered_per_s <= 0) return test;
  test.ordered_per_s = ordered_per_s * area_s / length_s;
  std::vector<Arrival> arrivals;
  for (const workload::TurnSample& turn : level.turns) {
    if (turn.turn != 0 || turn.intended < level.started || turn.intended > level.measure_to) continue;
    ++test.arrivals;
    if (turn.sent == TimePoint{} && turn.intended != TimePoint{}) continue;  // never; virtual time begins at 0
    test.latest_ms = std::max(test.latest_ms, to_milliseconds(turn.sent - turn.intended));
    if (turn.sent > level.measure_to) continue;
    ++test.sent;
    if (turn.sent - turn.intended > kOverdue) ++test.overdue;
    arrivals.push_back({.due = profile.area_until(to_seconds(turn.intended - level.started)),
                        .sent = profile.area_until(to_seconds(turn.sent - level.started))});
  }
  std::ranges::sort(arrivals, {}, &Arrival::due);
  if (const workload::TurnSample* const last = last_begun(level)) {
    const std::uint64_t ids = last->conversation.value() + 1;
    // Where arrivals wait for a place a missing id is of a thread that had sent its share of the requests.
    if (spec.when_full == spec::WhenFull::kRefuse && ids > test.arrivals) test.refused = ids - test.arrivals;
    test.refused += refused_behind_the_last(level, spec, ordered_per_s, *last);
    if (!held_back) test.held_back.not_sent = waiting_at_the_end(level, spec, ordered_per_s, *last);
  }
  const std::uint64_t due = test.arrivals + test.refused + test.held_back.not_sent;
  test.scheduled_per_s = static_cast<double>(due) / length_s;
  test.sent_per_s = static_cast<double>(test.sent) / length_s;
  const bool bursts = spec.kind == ArrivalKind::kBursts;
  test_gaps(with_gaps(arrivals, spec.kind), spec, (bursts ? spec.burst_size : 1) / ordered_per_s, test);
  test_counts(arrivals, area_s, ordered_per_s / (bursts ? spec.burst_size : 1), test);
  return test;
}

workload::HeldBack held_back_in(const results::LevelRecord& level, const spec::ArrivalSpec& spec,
                                double ordered_per_s) {
  const workload::TurnSample* const last = last_begun(level);
  if (last == nullptr) return {};
  return {.sent_late = sent_late(level, spec), .not_sent = waiting_at_the_end(level, spec, ordered_per_s, *last)};
}

}  // namespace kvist::analysis

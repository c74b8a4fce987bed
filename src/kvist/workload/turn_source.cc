#include "kvist/workload/turn_source.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

namespace kvist::workload {
namespace {

constexpr std::uint32_t kMostAtOnce = 1'000'000;
constexpr double kMostPerSecond = 1e6;

Result<void> check_count(const std::optional<std::uint32_t>& count, std::string_view name) {
  if (!count || (*count >= 1 && *count <= kMostAtOnce)) return {};
  return fail(ErrorCode::kInvalidArgument, fmt::format("{}: {}; want 1 to {}", name, *count, kMostAtOnce));
}

}  // namespace

LoadChange LoadChange::then(const LoadChange& later) const {
  return {.concurrency = later.concurrency ? later.concurrency : concurrency,
          .max_start_rate = later.max_start_rate ? later.max_start_rate : max_start_rate,
          .rate = later.rate ? later.rate : rate,
          .max_in_flight = later.max_in_flight ? later.max_in_flight : max_in_flight};
}

std::string text_of(const LoadChange& change) {
  std::vector<std::string> parts;
  if (change.concurrency) parts.push_back(fmt::format("{} at once", *change.concurrency));
  if (change.rate) parts.push_back(fmt::format("{:g} starts/s", *change.rate));
  if (change.max_in_flight) parts.push_back(fmt::format("at most {} in flight", *change.max_in_flight));
  if (change.max_start_rate) {
    parts.push_back(*change.max_start_rate > 0 ? fmt::format("at most {:g} starts/s", *change.max_start_rate)
                                               : "no limit of starts");
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

Result<void> check_change(const LoadChange& change) {
  if (change.is_empty()) {
    return fail(ErrorCode::kInvalidArgument,
                "nothing to change: want concurrency, max_start_rate, rate or max_in_flight");
  }
  KVIST_TRY_VOID(check_count(change.concurrency, "concurrency"));
  KVIST_TRY_VOID(check_count(change.max_in_flight, "max_in_flight"));
  if (change.rate && !(*change.rate > 0 && *change.rate <= kMostPerSecond)) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("rate: {}; want above 0 and at most {} starts per second", *change.rate, kMostPerSecond));
  }
  if (change.max_start_rate && !(*change.max_start_rate >= 0 && *change.max_start_rate <= kMostPerSecond)) {
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("max_start_rate: {}; want 0 (no limit) to {} starts per second", *change.max_start_rate,
                            kMostPerSecond));
  }
  return {};
}

}  // namespace kvist::workload

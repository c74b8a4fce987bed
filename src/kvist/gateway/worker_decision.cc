#include "kvist/gateway/worker_decision.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <chrono>

namespace kvist::gateway {
namespace {

using std::chrono::milliseconds;

constexpr std::array kSharedHolds = {SharedHold::kFree, SharedHold::kCordoned, SharedHold::kDrained,
                                     SharedHold::kRemoved};

std::optional<Duration> read_timeout(std::string_view text) {
  milliseconds::rep count = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), count);
  constexpr auto kMost = std::chrono::duration_cast<milliseconds>(WorkerDecision::kMostTimeout).count();
  if (error != std::errc{} || end != text.data() + text.size() || count < 0 || count > kMost) return std::nullopt;
  return milliseconds(count);
}

}  // namespace

std::string_view to_string(SharedHold hold) {
  switch (hold) {
    case SharedHold::kFree:
      return "free";
    case SharedHold::kCordoned:
      return "cordoned";
    case SharedHold::kDrained:
      return "drained";
    case SharedHold::kRemoved:
      return "removed";
  }
  return "free";
}

std::string to_row(const WorkerDecision& decision) {
  if (!decision.timeout) return fmt::format("{} {}", to_string(decision.hold), decision.worker);
  const auto timeout = std::chrono::duration_cast<milliseconds>(*decision.timeout);
  return fmt::format("{}:{} {}", to_string(decision.hold), timeout.count(), decision.worker);
}

std::optional<WorkerDecision> read_worker_decision(std::string_view row) {
  const std::size_t space = row.find(' ');
  if (space == std::string_view::npos || space + 1 == row.size()) return std::nullopt;
  WorkerDecision decision{.worker = std::string(row.substr(space + 1))};
  std::string_view word = row.substr(0, space);
  if (const std::size_t colon = word.find(':'); colon != std::string_view::npos) {
    decision.timeout = read_timeout(word.substr(colon + 1));
    word = word.substr(0, colon);
    if (!decision.timeout || word != to_string(SharedHold::kDrained)) return std::nullopt;
  }
  for (const SharedHold hold : kSharedHolds) {
    decision.hold = hold;
    if (word == to_string(hold)) return decision;
  }
  return std::nullopt;
}

}  // namespace kvist::gateway

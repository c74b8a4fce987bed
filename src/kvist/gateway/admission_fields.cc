#include "kvist/gateway/admission_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <tuple>

#include "kvist/base/random.h"

namespace kvist::gateway {
namespace {

constexpr double kMostSeconds = 86'400;

template <class T>
std::optional<T> number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return value;
}

/// Returns nothing if the field is not a number above 0.
std::optional<Duration> time_of(std::string_view text, double seconds_per_unit) {
  const auto value = number<double>(text);
  if (!value || !(*value > 0)) return std::nullopt;
  return from_seconds(std::min(*value * seconds_per_unit, kMostSeconds));
}

void shorten(Duration& time, Duration other) {
  if (time == Duration(0) || other < time) time = other;
}

Result<void> read_times(const net::Headers& headers, Duration& within) {
  constexpr double kPerMillisecond = 1e-3;
  for (const auto& [name, unit, what] :
       {std::tuple(kTtftHeader, kPerMillisecond, "milliseconds"), std::tuple(kTimeoutHeader, 1.0, "seconds")}) {
    const auto text = headers.find(name);
    if (!text) continue;
    const auto time = time_of(*text, unit);
    if (!time) return fail(ErrorCode::kInvalidArgument, fmt::format("{} has to be a number of {} above 0", name, what));
    shorten(within, *time);
  }
  if (const auto text = headers.find(kStainlessTimeoutHeader)) {
    if (const auto time = time_of(*text, 1)) shorten(within, *time);
  }
  return {};
}

}  // namespace

Result<dispatch::AdmissionProfile> read_admission_fields(const net::HttpRequest& request, std::int32_t priority,
                                                         const KeyAccount* account) {
  dispatch::AdmissionProfile profile{.priority = priority};
  profile.exempt = request.method == "GET" || request.method == "HEAD" || request.method == "OPTIONS";
  KVIST_TRY_VOID(read_times(request.headers, profile.first_token_within));
  if (const auto text = request.headers.find(kPriorityHeader)) {
    const auto value = number<std::int32_t>(*text);
    if (!value) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("{} has to be a whole number; the lower, the earlier", kPriorityHeader));
    }
    profile.priority = *value;
  }
  if (account == nullptr) return profile;
  const KeyStanding standing = account->standing();
  profile.tenant = {.id = seed_part(account->name()), .weight = static_cast<double>(standing.weight)};
  profile.key_class = account->key_class();
  profile.priority = std::max(profile.priority, standing.priority);
  return profile;
}

}  // namespace kvist::gateway

#include "kvist/text/stop_matcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace kvist::text {

Result<StopMatcher> StopMatcher::create(const std::vector<std::string>& stops, bool include_stop) {
  if (stops.size() > kMostStops) {
    return fail(ErrorCode::kInvalidArgument, fmt::format("stop: {} strings, more than {}", stops.size(), kMostStops));
  }
  StopMatcher matcher;
  matcher.include_stop_ = include_stop;
  for (std::size_t i = 0; i < stops.size(); ++i) {
    const std::string& text = stops[i];
    if (text.empty()) return fail(ErrorCode::kInvalidArgument, fmt::format("stop[{}] is empty", i));
    if (text.size() > kMostStopBytes) {
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("stop[{}] has {} bytes, more than {}", i, text.size(), kMostStopBytes));
    }
    std::vector<std::size_t> border(text.size() + 1, 0);
    for (std::size_t n = 2, length = 0; n <= text.size(); ++n) {
      while (length > 0 && text[length] != text[n - 1]) length = border[length];
      if (text[length] == text[n - 1]) ++length;
      border[n] = length;
    }
    matcher.stops_.push_back({text, std::move(border), 0});
  }
  return matcher;
}

const StopMatcher::Stop* StopMatcher::advance(char byte, bool may_stop) {
  const Stop* complete = nullptr;
  for (Stop& stop : stops_) {
    while (stop.matched > 0 && stop.text[stop.matched] != byte) stop.matched = stop.border[stop.matched];
    if (stop.text[stop.matched] == byte) ++stop.matched;
    if (stop.matched < stop.text.size()) continue;
    if (!may_stop)
      stop.matched = stop.border[stop.matched];
    else if (!complete || stop.text.size() > complete->text.size())
      complete = &stop;
  }
  return complete;
}

std::size_t StopMatcher::longest_match() const {
  std::size_t longest = 0;
  for (const Stop& stop : stops_) longest = std::max(longest, stop.matched);
  return longest;
}

std::string StopMatcher::push(std::string_view piece, bool may_stop) {
  if (stopped()) return {};
  if (stops_.empty()) return std::string(piece);
  for (std::size_t i = 0; i < piece.size(); ++i) {
    const Stop* complete = advance(piece[i], may_stop);
    if (!complete) continue;
    held_.append(piece.substr(0, i + 1));
    if (!include_stop_) held_.resize(held_.size() - complete->text.size());
    stop_ = complete->text;
    return std::exchange(held_, {});
  }
  held_.append(piece);
  const std::size_t kept = longest_match();
  std::string released = held_.substr(0, held_.size() - kept);
  held_.erase(0, released.size());
  return released;
}

std::string StopMatcher::finish() {
  if (stopped()) return {};
  for (Stop& stop : stops_) stop.matched = 0;
  return std::exchange(held_, {});
}

}  // namespace kvist::text

// Stop strings in a stream of text.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/error.h"

namespace kvist::text {

/// Ends an answer at the first of several stop strings, wherever the borders of its tokens lie. Text that may yet
/// become a stop string is held back; all else is released at once. Of several stop strings that one counts which is
/// complete first, and of those that end at one place the longest: the outcome does not depend on how the text was cut.
/// Works byte by byte; a byte costs a few steps per stop string. Owned by one request; not thread-safe.
class StopMatcher {
 public:
  /// More or longer ones are refused.
  static constexpr std::size_t kMostStops = 64;
  static constexpr std::size_t kMostStopBytes = 4'096;

  /// Stops at nothing.
  StopMatcher() = default;
  /// `include_stop`: the stop string itself is released too.
  [[nodiscard]] static Result<StopMatcher> create(const std::vector<std::string>& stops, bool include_stop = false);

  /// The text that this piece releases. After a stop, nothing any more.
  [[nodiscard]] std::string push(std::string_view piece);
  /// What is still held back at the end of the answer.
  [[nodiscard]] std::string finish();

  [[nodiscard]] bool stopped() const { return !stop_.empty(); }
  /// The stop string that ended the answer; empty before.
  [[nodiscard]] std::string_view stop() const { return stop_; }
  [[nodiscard]] std::size_t held_bytes() const { return held_.size(); }

 private:
  // The automaton of Knuth, Morris and Pratt (1977) for one stop string.
  struct Stop {
    std::string text;
    std::vector<std::size_t> border;  // [n]: the longest proper beginning of text[0, n) that also ends it
    std::size_t matched = 0;          // bytes of `text` that the end of what was pushed matches
  };

  // The longest stop string that this byte completes.
  [[nodiscard]] const Stop* advance(char byte);
  [[nodiscard]] std::size_t longest_match() const;

  std::vector<Stop> stops_;
  bool include_stop_ = false;
  std::string held_;
  std::string stop_;  // that ended the answer
};

}  // namespace kvist::text

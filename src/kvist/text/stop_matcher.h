// Stop strings in a stream of text.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/error.h"

namespace kvist::text {

/// Ends an answer at the first of several stop strings, which may span several tokens. Text that may become a stop
/// string is held back; all other text is released at once. The stop string that is complete first counts, and of
/// several that end at the same place the longest, so the result does not depend on how the text was cut. Works byte by
/// byte; a byte costs a few steps per stop string. Owned by one request. Threads: one at a time.
class StopMatcher {
 public:
  /// Bounds; more or longer stop strings are refused.
  static constexpr std::size_t kMostStops = 64;
  static constexpr std::size_t kMostStopBytes = 4'096;

  /// A matcher that never stops.
  StopMatcher() = default;
  /// `include_stop`: the stop string is released too.
  [[nodiscard]] static Result<StopMatcher> create(const std::vector<std::string>& stops, bool include_stop = false);

  /// Returns the text that this piece releases; nothing after a stop. `may_stop` false: no stop string that ends within
  /// this piece counts, because the answer must be longer.
  [[nodiscard]] std::string push(std::string_view piece, bool may_stop = true);
  /// Returns the text that is held back at the end of the answer.
  [[nodiscard]] std::string finish();

  [[nodiscard]] bool stopped() const { return !stop_.empty(); }
  /// The stop string that ended the answer; empty if none has.
  [[nodiscard]] std::string_view stop() const { return stop_; }
  [[nodiscard]] std::size_t held_bytes() const { return held_.size(); }

 private:
  // The automaton of Knuth, Morris and Pratt (1977) for one stop string.
  struct Stop {
    std::string text;
    std::vector<std::size_t> border;  // [n]: length of the longest proper prefix of text[0, n) that is also its suffix
    std::size_t matched = 0;          // length of the prefix of `text` that the end of the pushed text matches
  };

  // The longest stop string that this byte completes, or null; always null if it may not stop.
  [[nodiscard]] const Stop* advance(char byte, bool may_stop);
  [[nodiscard]] std::size_t longest_match() const;

  std::vector<Stop> stops_;
  bool include_stop_ = false;
  std::string held_;
  std::string stop_;  // that ended the answer
};

}  // namespace kvist::text

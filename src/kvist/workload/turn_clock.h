// The stopwatch of one turn: turns what the client saw, and when, into a TurnSample.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "kvist/base/id.h"
#include "kvist/base/time.h"
#include "kvist/workload/turn_sample.h"

namespace kvist::workload {

/// Accumulates one TurnSample. The rules:
///  - The first token is the first chunk with non-empty content: a chunk that carries only a role, a finish reason or
///    usage stops no clock.
///  - Gaps are those between successive content chunks, as they arrived: 0 for two chunks of one read.
///  - Token counts are the server's usage; chunks are counted apart, since one chunk may hold several tokens.
/// Owned by whoever runs the turn; one thread. Memory is 4 bytes per content chunk.
class TurnClock {
 public:
  TurnClock(ConversationId conversation, std::uint32_t turn, TimePoint intended);

  /// The request was handed to the socket. May come again with a better reading; the last one counts.
  void on_sent(TimePoint at) { sample_.sent = at; }
  /// Who answers, as the response head says.
  void on_route(std::string worker, std::optional<std::uint32_t> predicted_cached_tokens);
  /// A stream chunk was read at `at`. True if it counts as content.
  bool on_chunk(std::string_view content, TimePoint at);
  void on_usage(std::uint32_t prompt_tokens, std::uint32_t cached_tokens, std::uint32_t completion_tokens);

  [[nodiscard]] bool has_first_token() const { return sample_.chunks > 0; }
  /// What is known so far.
  [[nodiscard]] const TurnSample& sample() const { return sample_; }
  /// The finished sample; the clock is spent.
  [[nodiscard]] TurnSample finish(TurnOutcome outcome, std::string error, TimePoint ended);

 private:
  TurnSample sample_;
};

}  // namespace kvist::workload

// Measures one turn: makes a TurnSample of what the client observed, and when.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "kvist/base/error.h"
#include "kvist/base/id.h"
#include "kvist/base/time.h"
#include "kvist/workload/turn_sample.h"

namespace kvist::workload {

/// How long before it was read a chunk had arrived in this machine.
struct ChunkAge {
  Duration at_least{};
  Duration at_most{};
  bool stamped = false;  ///< `at_least` is known; otherwise it is 0
};

/// Accumulates one TurnSample. The rules:
///  - The first token is the first chunk with content: with something that was generated, reasoning included. A chunk
///    with only a role, a finish reason or usage does not count.
///  - Gaps are those between successive content chunks, as they arrived: 0 for two chunks of one read. With speculation
///    a chunk may have several tokens; it is still one chunk with one gap.
///  - Token counts are those of the server's usage; chunks are counted separately. So TPOT is per token, however tokens
///    are put into chunks.
/// Threads: one. Memory: 4 bytes per content chunk if gaps are kept, and 4 or 8 more if ages are told.
class TurnClock {
 public:
  enum class Gaps : bool { kDrop, kKeep };

  TurnClock(ConversationId conversation, std::uint32_t turn, TimePoint intended, Gaps gaps = Gaps::kKeep);

  /// The session that the turn belongs to, if it is not its conversation.
  void on_session(std::optional<ConversationId> session) { sample_.session = session; }
  /// Since when the client could have come to the turn.
  void on_ready(TimePoint at) { sample_.ready = at; }
  /// The client has come to the turn.
  void on_handed(TimePoint at) { sample_.handed = at; }
  /// The socket took the request within this time before on_sent().
  void on_longest_send(Duration span) { sample_.longest_send_ms = static_cast<float>(to_milliseconds(span)); }
  /// The request was handed to the socket. May be called again with a better time; the last one counts.
  void on_sent(TimePoint at) { sample_.sent = at; }
  /// The worker that answers, as the response head reports it.
  void on_route(std::string worker, std::optional<std::uint32_t> predicted_cached_tokens);
  /// A stream chunk was read at `at`. Returns whether it counts as content.
  bool on_chunk(std::string_view content, TimePoint at) {
    if (content.empty()) return false;
    on_content(at);
    return true;
  }
  /// A chunk with content was read at `at`. For callers that count tokens and have no text.
  void on_content(TimePoint at) {
    if (sample_.chunks == 0) {
      sample_.first_token = at;
    } else if (gaps_ == Gaps::kKeep) {
      sample_.gaps_ms.push_back(static_cast<float>(to_milliseconds(at - sample_.last_token)));
    }
    sample_.last_token = at;
    ++sample_.chunks;
  }
  /// How long the last `chunks` content chunks had been in this machine before they were read. `age` is a range.
  void on_age(std::uint32_t chunks, ChunkAge age);
  void on_usage(std::uint32_t prompt_tokens, std::optional<std::uint32_t> cached_tokens,
                std::uint32_t completion_tokens);

  /// The client counted the tokens of the answer itself.
  void on_counted_tokens(std::uint32_t tokens) { sample_.counted_tokens = tokens; }

  [[nodiscard]] bool has_first_token() const { return sample_.chunks > 0; }
  /// Checks whether a stream that ended in order was an answer. One without any content is a failed turn.
  [[nodiscard]] Result<void> check_answer() const;
  /// The sample so far.
  [[nodiscard]] const TurnSample& sample() const { return sample_; }
  /// Returns the finished sample. The clock cannot be used afterwards.
  [[nodiscard]] TurnSample finish(TurnOutcome outcome, std::string error, TimePoint ended);

 private:
  Gaps gaps_;
  TurnSample sample_;
};

}  // namespace kvist::workload

// Reads the event stream of one answer: takes bytes, gives the turn's measurement and reply. No I/O.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "kvist/base/error.h"
#include "kvist/base/time.h"
#include "kvist/net/sse.h"
#include "kvist/openai/chunk_frame.h"
#include "kvist/workload/turn_clock.h"

namespace kvist::loadgen {

/// The longest reply that is read. It is far above any max_tokens, and keeps an endless answer from filling the memory.
inline constexpr std::size_t kMaxReplyBytes = std::size_t{4} << 20;

/// Feeds a TurnClock from a stream of chat completion chunks and collects the reply. Owned by one call. Threads: one.
class AnswerReader {
 public:
  /// `clock` must outlive the reader.
  explicit AnswerReader(workload::TurnClock& clock) : clock_(&clock) {}

  /// Takes bytes of the body that were read at `at`. Errors: a broken stream, an error frame, an endless reply.
  /// Requires: no call after an error.
  [[nodiscard]] Result<void> feed(std::string_view bytes, TimePoint at);
  /// Checks, at the end of the body, whether the answer is complete: it ended with [DONE] and something was
  /// generated.
  [[nodiscard]] Result<void> check_whole() const;

  /// Events of the stream so far.
  [[nodiscard]] std::uint64_t events() const { return events_; }
  /// Whether the bytes that were fed end with a complete event.
  [[nodiscard]] bool between_events() const { return parser_.rest().empty(); }
  /// Whether [DONE] was read. Everything after it is ignored.
  [[nodiscard]] bool done() const { return done_; }
  /// When [DONE] was read.
  [[nodiscard]] TimePoint done_at() const { return done_at_; }
  /// The content. What was generated beside it, such as reasoning, is no part of a conversation's history.
  [[nodiscard]] std::string take_reply() { return std::move(reply_); }
  /// Of the clock's chunks those that added nothing to the reply.
  [[nodiscard]] std::uint32_t chunks_beside_reply() const { return chunks_beside_reply_; }

 private:
  [[nodiscard]] Result<void> read_event(std::string_view data, TimePoint at);
  [[nodiscard]] Result<void> add_content(std::string_view content, bool generates, TimePoint at);

  workload::TurnClock* clock_;
  net::SseParser parser_;
  openai::ChunkFrame frame_;
  std::string reply_;
  std::uint64_t events_ = 0;
  std::uint32_t chunks_beside_reply_ = 0;
  bool done_ = false;
  TimePoint done_at_;
};

}  // namespace kvist::loadgen

// Reads the event stream of one answer: bytes in, the turn's measurement and reply out. No I/O.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "kvist/base/error.h"
#include "kvist/base/time.h"
#include "kvist/net/sse.h"
#include "kvist/workload/turn_clock.h"

namespace kvist::loadgen {

/// The longest reply that is read. Far above any max_tokens; a server that never ends must not fill our memory.
inline constexpr std::size_t kMaxReplyBytes = std::size_t{4} << 20;

/// Feeds a TurnClock from a stream of chat completion chunks and collects the reply. Owned by one call; one thread.
class AnswerReader {
 public:
  /// `clock` must outlive the reader.
  explicit AnswerReader(workload::TurnClock& clock) : clock_(&clock) {}

  /// Takes bytes of the body that were read at `at`. An error (a broken stream, an error frame of the server, a reply
  /// without end) finishes the answer: feed nothing more.
  [[nodiscard]] Result<void> feed(std::string_view bytes, TimePoint at);
  /// Whether what came is a whole answer: it ended with [DONE] and had content. To be asked at the end of the body.
  [[nodiscard]] Result<void> check_whole() const;

  /// [DONE] has been read; what comes after it is ignored.
  [[nodiscard]] bool done() const { return done_; }
  /// When [DONE] was read.
  [[nodiscard]] TimePoint done_at() const { return done_at_; }
  [[nodiscard]] std::string take_reply() { return std::move(reply_); }

 private:
  [[nodiscard]] Result<void> read_event(std::string_view data, TimePoint at);

  workload::TurnClock* clock_;
  net::SseParser parser_;
  std::string reply_;
  bool done_ = false;
  TimePoint done_at_;
};

}  // namespace kvist::loadgen

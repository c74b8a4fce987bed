// Server-sent events: a parser of arriving bytes (no I/O), and a writer.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/error.h"

namespace kvist::net {

/// Splits a byte stream into events. The user feeds bytes, then takes events until there are none. CR LF, LF and CR end
/// lines, as in the HTML standard. An event larger than `max_event_bytes` is an error, because the stream is hostile or
/// broken. The `raw` of all events and rest() together are the bytes fed, unchanged. It makes no difference how the
/// bytes were split, with one exception: if a feed ends between the CR and the LF that end an event, the event is
/// returned at once and the LF is in the `raw` of the next.
class SseParser {
 public:
  explicit SseParser(std::size_t max_event_bytes = 1U << 20) : max_event_bytes_(max_event_bytes) {}

  struct Event {
    std::string_view data;  ///< the data lines joined with newlines; valid until the next call
    std::string_view raw;   ///< the event's bytes unchanged, with the blank line that ends it
  };
  /// Errors: an event is too large; every later call fails too then.
  [[nodiscard]] Result<void> feed(std::string_view bytes);
  /// Returns the next complete event. Comments and events without data have an empty `data`.
  [[nodiscard]] bool next(Event& event);
  /// The data of `bytes`, if they are exactly one event of one data line and nothing is left of what was fed before:
  /// what feed() and next() would make of them, without a copy and without a trace, so that they need not be fed. Most
  /// events of a stream arrive like this. Nothing for other bytes, which are to be fed.
  [[nodiscard]] std::optional<std::string_view> data_of_whole_event(std::string_view bytes) const;
  /// Bytes of an event that is not complete yet.
  [[nodiscard]] std::string_view rest() const;

 private:
  [[nodiscard]] Result<void> scan();
  [[nodiscard]] Result<void> end_event(std::size_t end);

  std::size_t max_event_bytes_;
  std::string buffer_;             // from the first event that was not taken yet
  std::size_t taken_ = 0;          // bytes of it that next() has returned
  std::size_t scanned_ = 0;        // bytes of it that were searched for line ends
  std::size_t event_start_ = 0;    // of the event being scanned
  std::vector<std::size_t> ends_;  // ends of complete events that were not taken yet, from next_end_ on
  std::size_t next_end_ = 0;
  std::string data_;  // of the last returned event, if it has several data lines
  bool at_line_start_ = true;
  bool after_cr_ = false;  // a line feed as the next byte belongs to the line end before it
  bool at_stream_start_ = true;
  bool too_large_ = false;
};

/// Appends "data: <json>\n\n" to `out`. Requires: `data` has no line break.
void append_sse_data(std::string& out, std::string_view data);

}  // namespace kvist::net

// Server-sent events: a parser over arriving bytes (no I/O), and the writer.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/error.h"

namespace kvist::net {

/// Splits a byte stream into events. Feed bytes, then take events until there is none. CR LF, LF and CR end lines, as
/// the HTML standard has it. An event larger than `max_event_bytes` is an error: the stream is hostile or broken. The
/// `raw` of all events and rest() together are the bytes fed, unchanged. How the bytes were split does not matter, but
/// for one thing: where a feed ends between the CR and the LF that end an event, the event is given out at once and the
/// LF comes with the `raw` of the next.
class SseParser {
 public:
  explicit SseParser(std::size_t max_event_bytes = 1U << 20) : max_event_bytes_(max_event_bytes) {}

  struct Event {
    std::string_view data;  ///< the data lines joined with newlines; valid until the next call
    std::string_view raw;   ///< the event's bytes as they came, with the blank line that ends it
  };
  [[nodiscard]] Result<void> feed(std::string_view bytes);
  /// The next complete event that has data; comments and events without data are returned with empty `data`.
  [[nodiscard]] bool next(Event& event);
  /// Bytes of an event that is not complete yet.
  [[nodiscard]] std::string_view rest() const;

 private:
  [[nodiscard]] Result<void> scan();
  [[nodiscard]] Result<void> end_event(std::size_t end);

  std::size_t max_event_bytes_;
  std::string buffer_;             // from the first event not taken yet
  std::size_t taken_ = 0;          // bytes of it that next() has given out
  std::size_t scanned_ = 0;        // bytes of it in which line ends have been looked for
  std::size_t event_start_ = 0;    // of the event being scanned
  std::vector<std::size_t> ends_;  // of complete events not taken yet, from next_end_ on
  std::size_t next_end_ = 0;
  std::string data_;  // of the event given out last, where it has several data lines
  bool at_line_start_ = true;
  bool after_cr_ = false;  // a line feed now belongs to the line end before it
  bool at_stream_start_ = true;
  bool too_large_ = false;
};

/// "data: <json>\n\n" appended to `out`; `data` must not contain a line break.
void append_sse_data(std::string& out, std::string_view data);

}  // namespace kvist::net

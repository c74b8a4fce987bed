// Server-sent events: a parser over arriving bytes (no I/O), and the writer.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "kvist/base/error.h"

namespace kvist::net {

/// Splits a byte stream into events. Feed bytes, then take events until there is none. CR LF, LF and CR end lines, as
/// the HTML standard has it. An event larger than `max_event_bytes` is an error: the stream is hostile or broken.
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
  std::size_t max_event_bytes_;
  std::string buffer_;
  std::size_t consumed_ = 0;
  std::size_t scanned_ = 0;
  std::string data_;
};

/// "data: <json>\n\n" appended to `out`; `data` must not contain a line break.
void append_sse_data(std::string& out, std::string_view data);

}  // namespace kvist::net

#include "kvist/net/sse.h"

#include "kvist/base/check.h"

namespace kvist::net {

namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

/// The position of the next CR or LF from `at` on, or the size of `text`. A plain loop, because find_first_of()
/// searches its set for every byte, and all streamed bytes pass through here.
std::size_t find_line_end(std::string_view text, std::size_t at) {
  while (at < text.size() && text[at] != '\n' && text[at] != '\r') ++at;
  return at;
}

/// The value of a line "data", "data:x" or "data: x"; false for every other line.
bool data_line(std::string_view line, std::string_view& value) {
  constexpr std::string_view kField = "data";
  if (!line.starts_with(kField)) return false;
  line.remove_prefix(kField.size());
  if (!line.empty()) {
    if (line.front() != ':') return false;
    line.remove_prefix(1);
    if (line.starts_with(' ')) line.remove_prefix(1);
  }
  value = line;
  return true;
}

/// Removes the next line from `text` and returns it without its end.
std::string_view take_line(std::string_view& text) {
  const std::size_t end = find_line_end(text, 0);
  const std::string_view line = text.substr(0, end);
  const std::string_view behind = text.substr(end);
  text.remove_prefix(end + (behind.starts_with("\r\n") ? 2 : behind.empty() ? 0 : 1));
  return line;
}

}  // namespace

Result<void> SseParser::feed(std::string_view bytes) {
  if (taken_ == buffer_.size()) {
    buffer_.clear();
  } else {
    buffer_.erase(0, taken_);
  }
  scanned_ -= taken_;
  event_start_ -= taken_;
  for (std::size_t i = next_end_; i < ends_.size(); ++i) ends_[i] -= taken_;
  ends_.erase(ends_.begin(), ends_.begin() + static_cast<std::ptrdiff_t>(next_end_));
  next_end_ = 0;
  taken_ = 0;
  buffer_.append(bytes);
  return scan();
}

Result<void> SseParser::scan() {
  while (scanned_ < buffer_.size() && !too_large_) {
    const std::size_t line_end = find_line_end(buffer_, scanned_);
    if (line_end > scanned_) {
      at_line_start_ = false;
      after_cr_ = false;
      scanned_ = line_end;
      continue;
    }
    const char c = buffer_[scanned_++];
    if (c == '\n' && after_cr_) {
      after_cr_ = false;
      continue;
    }
    after_cr_ = c == '\r';
    if (!at_line_start_) {
      at_line_start_ = true;
      continue;
    }
    if (after_cr_ && scanned_ < buffer_.size() && buffer_[scanned_] == '\n') {
      ++scanned_;
      after_cr_ = false;
    }
    KVIST_TRY_VOID(end_event(scanned_));
  }
  if (!too_large_ && buffer_.size() - event_start_ <= max_event_bytes_) return {};
  return end_event(buffer_.size());
}

/// Records a complete event. Returns an error if the event is too large, complete or not; then nothing more is scanned.
Result<void> SseParser::end_event(std::size_t end) {
  if (too_large_ || end - event_start_ > max_event_bytes_) {
    too_large_ = true;
    return fail(ErrorCode::kTooLarge, "a server-sent event larger than " + std::to_string(max_event_bytes_) + " bytes");
  }
  ends_.push_back(end);
  event_start_ = end;
  return {};
}

bool SseParser::next(Event& event) {
  if (next_end_ == ends_.size()) return false;
  const std::size_t end = ends_[next_end_++];
  event.raw = std::string_view(buffer_).substr(taken_, end - taken_);
  event.data = {};
  taken_ = end;

  std::string_view lines = event.raw;
  if (at_stream_start_ && lines.starts_with(kByteOrderMark)) lines.remove_prefix(kByteOrderMark.size());
  at_stream_start_ = false;
  std::size_t data_lines = 0;
  while (!lines.empty()) {
    std::string_view value;
    if (!data_line(take_line(lines), value)) continue;
    if (++data_lines == 1) {
      event.data = value;  // nearly always the only data line, so that no copy is needed
      continue;
    }
    if (data_lines == 2) data_ = event.data;
    data_ += '\n';
    data_ += value;
    event.data = data_;
  }
  return true;
}

std::string_view SseParser::rest() const {
  return std::string_view(buffer_).substr(event_start_);
}

void append_sse_data(std::string& out, std::string_view data) {
  KVIST_CHECK(data.find_first_of("\r\n") == std::string_view::npos, data);
  out.append("data: ").append(data).append("\n\n");
}

}  // namespace kvist::net

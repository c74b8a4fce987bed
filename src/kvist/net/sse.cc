#include "kvist/net/sse.h"

#include <algorithm>

#include "kvist/base/check.h"

namespace kvist::net {

namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

/// Events that come together when a stream ends.
constexpr std::size_t kUsualEvents = 4;

/// The position of the next CR or LF from `at` on, or the size of `text`. The library searches for one byte much faster
/// than for one of a set, and all streamed bytes pass through here. It does so piece by piece, because with lines that
/// end in CR alone, each search for an LF would otherwise go through all that follows.
std::size_t find_line_end(std::string_view text, std::size_t at) {
  constexpr std::size_t kPiece = 256;
  for (; at < text.size(); at += kPiece) {
    const std::string_view piece = text.substr(at, kPiece);
    const std::size_t lf = std::min(piece.find('\n'), piece.size());
    const std::size_t end = std::min(piece.substr(0, lf).find('\r'), lf);
    if (end < piece.size()) return at + end;
  }
  return text.size();
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
  if (too_large_) return end_event(buffer_.size());  // so that nothing more is kept
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
  if (ends_.empty()) ends_.reserve(kUsualEvents);
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

std::optional<std::string_view> SseParser::data_of_whole_event(std::string_view bytes) const {
  constexpr std::string_view kEnd = "\n\n";
  // Whether a byte order mark or a line feed would still be skipped.
  const bool is_between_events = at_line_start_ && !after_cr_ && !at_stream_start_ && !too_large_;
  if (!is_between_events || taken_ != buffer_.size()) return std::nullopt;
  if (bytes.size() > max_event_bytes_ || !bytes.ends_with(kEnd)) return std::nullopt;
  const std::string_view line = bytes.substr(0, bytes.size() - kEnd.size());
  std::string_view data;
  if (find_line_end(line, 0) != line.size() || !data_line(line, data)) return std::nullopt;
  return data;
}

std::string_view SseParser::rest() const {
  return std::string_view(buffer_).substr(event_start_);
}

void append_sse_data(std::string& out, std::string_view data) {
  KVIST_CHECK(data.find_first_of("\r\n") == std::string_view::npos, data);
  out.append("data: ").append(data).append("\n\n");
}

}  // namespace kvist::net

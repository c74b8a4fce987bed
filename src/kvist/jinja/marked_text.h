// Text with marks on the bytes that came with the messages.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace kvist::jinja {

/// Bytes with marks: a marked byte came from the messages, an unmarked one from the template. Every operation keeps
/// each byte's mark. Marks are stored as ranges, so unmarked text, such as template literals, has no cost.
class MarkedText {
 public:
  /// Bytes [begin, end).
  struct Range {
    std::size_t begin = 0;
    std::size_t end = 0;

    bool operator==(const Range&) const = default;
  };

  MarkedText() = default;
  explicit MarkedText(std::string bytes, bool marked = false) : bytes_(std::move(bytes)) {
    if (marked && !bytes_.empty()) marks_.push_back({0, bytes_.size()});
  }

  [[nodiscard]] std::string_view bytes() const { return bytes_; }
  [[nodiscard]] std::size_t size() const { return bytes_.size(); }
  [[nodiscard]] bool empty() const { return bytes_.empty(); }
  /// Sorted, disjoint, non-empty and non-adjacent ranges.
  [[nodiscard]] const std::vector<Range>& marks() const { return marks_; }
  [[nodiscard]] bool is_marked(std::size_t position) const;

  void reserve(std::size_t bytes) { bytes_.reserve(bytes); }
  void append(std::string_view bytes, bool marked = false);
  void append(const MarkedText& text) { append(text, 0, text.size()); }
  /// Bytes [begin, end) of `text`. Requires: begin <= end <= text.size().
  void append(const MarkedText& text, std::size_t begin, std::size_t end);

  /// The bytes [begin, end) as a new text. Requires: begin <= end <= size().
  [[nodiscard]] MarkedText part(std::size_t begin, std::size_t end) const;

  /// Moves the bytes out.
  [[nodiscard]] std::string take_bytes() && { return std::move(bytes_); }

 private:
  void mark(std::size_t begin, std::size_t end);

  std::string bytes_;
  std::vector<Range> marks_;
};

}  // namespace kvist::jinja

// Text with marks on the parts that users wrote. The marks are kept while the text is rewritten.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/tokenizer/rendered_prompt.h"

namespace kvist::tokenizer {

using Range = RenderedPrompt::Range;

/// A text and its marks, which are sorted, disjoint, non-empty ranges of bytes.
struct MarkedText {
  std::string text;
  std::vector<Range> marks;
};

/// Whether [begin, end) touches a mark.
[[nodiscard]] bool touches(const std::vector<Range>& marks, std::size_t begin, std::size_t end);

/// The marks within [begin, end), counted from `begin`.
[[nodiscard]] std::vector<Range> marks_within(const std::vector<Range>& marks, std::size_t begin, std::size_t end);

/// Writes a new text from an old one, from left to right. Copied bytes keep their marks. A replacement for a part that
/// touches a mark is marked as a whole.
class Rewriter {
 public:
  explicit Rewriter(const MarkedText& from) : from_(&from) { to_.text.reserve(from.text.size()); }

  /// Copies the next bytes up to `end`.
  void copy_until(std::size_t end);
  /// Writes `replacement` instead of the next bytes up to `end`. If these are none, it is an insertion and unmarked.
  void replace_until(std::size_t end, std::string_view replacement);
  [[nodiscard]] std::size_t at() const { return at_; }
  /// Copies the rest and returns the result.
  [[nodiscard]] MarkedText finish();

 private:
  void mark(std::size_t begin, std::size_t end);

  const MarkedText* from_;
  MarkedText to_;
  std::size_t at_ = 0;
  std::size_t next_mark_ = 0;  // index of the first mark that ends after at_
};

}  // namespace kvist::tokenizer

#include "kvist/tokenizer/marked_text.h"

#include <algorithm>
#include <utility>

namespace kvist::tokenizer {
namespace {

// The first mark that ends after `at`.
std::vector<Range>::const_iterator first_after(const std::vector<Range>& marks, std::size_t at) {
  return std::ranges::upper_bound(marks, at, {}, &Range::end);
}

}  // namespace

bool touches(const std::vector<Range>& marks, std::size_t begin, std::size_t end) {
  const auto mark = first_after(marks, begin);
  return mark != marks.end() && mark->begin < end;
}

std::vector<Range> marks_within(const std::vector<Range>& marks, std::size_t begin, std::size_t end) {
  std::vector<Range> within;
  for (auto mark = first_after(marks, begin); mark != marks.end() && mark->begin < end; ++mark) {
    within.push_back({std::max(mark->begin, begin) - begin, std::min(mark->end, end) - begin});
  }
  return within;
}

void Rewriter::mark(std::size_t begin, std::size_t end) {
  if (begin == end) return;
  if (!to_.marks.empty() && to_.marks.back().end == begin) {
    to_.marks.back().end = end;
  } else {
    to_.marks.push_back({begin, end});
  }
}

void Rewriter::copy_until(std::size_t end) {
  const std::size_t out = to_.text.size();
  to_.text.append(from_->text, at_, end - at_);
  for (; next_mark_ < from_->marks.size() && from_->marks[next_mark_].begin < end; ++next_mark_) {
    const Range& range = from_->marks[next_mark_];
    mark(out + std::max(range.begin, at_) - at_, out + std::min(range.end, end) - at_);
    if (range.end > end) break;
  }
  at_ = end;
}

void Rewriter::replace_until(std::size_t end, std::string_view replacement) {
  const std::size_t out = to_.text.size();
  to_.text.append(replacement);
  bool marked = false;
  for (; next_mark_ < from_->marks.size() && from_->marks[next_mark_].begin < end; ++next_mark_) {
    marked = marked || from_->marks[next_mark_].end > at_;
    if (from_->marks[next_mark_].end > end) break;
  }
  if (marked && end > at_) mark(out, to_.text.size());
  at_ = end;
}

MarkedText Rewriter::finish() {
  copy_until(from_->text.size());
  return std::move(to_);
}

}  // namespace kvist::tokenizer

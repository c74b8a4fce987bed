#include "kvist/jinja/marked_text.h"

#include <algorithm>

#include "kvist/base/check.h"

namespace kvist::jinja {

bool MarkedText::is_marked(std::size_t position) const {
  const auto after = std::ranges::upper_bound(marks_, position, {}, &Range::begin);
  return after != marks_.begin() && position < std::prev(after)->end;
}

void MarkedText::mark(std::size_t begin, std::size_t end) {
  if (begin == end) return;
  if (!marks_.empty() && marks_.back().end == begin) {
    marks_.back().end = end;
  } else {
    marks_.push_back({begin, end});
  }
}

void MarkedText::append(std::string_view bytes, bool marked) {
  const std::size_t begin = bytes_.size();
  bytes_ += bytes;
  if (marked) mark(begin, bytes_.size());
}

void MarkedText::append(const MarkedText& text, std::size_t begin, std::size_t end) {
  KVIST_CHECK(begin <= end && end <= text.size() && this != &text, "a part lies inside of another text");
  const std::size_t at = bytes_.size();
  bytes_.append(text.bytes_, begin, end - begin);
  auto range = std::ranges::upper_bound(text.marks_, begin, {}, &Range::end);
  for (; range != text.marks_.end() && range->begin < end; ++range)
    mark(at + std::max(range->begin, begin) - begin, at + std::min(range->end, end) - begin);
}

MarkedText MarkedText::part(std::size_t begin, std::size_t end) const {
  MarkedText part;
  part.append(*this, begin, end);
  return part;
}

}  // namespace kvist::jinja

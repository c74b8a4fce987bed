// Lines of a byte stream, however it is split.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "kvist/base/error.h"

namespace kvist::kubernetes {

/// Pure. Threads: one.
class LineSplitter {
 public:
  /// Lines of more than `most_bytes` are refused.
  explicit LineSplitter(std::size_t most_bytes) : most_bytes_(most_bytes) {}

  /// Gives each line that is whole, without its end, to `on_line`, until that returns false. Empty lines are left out.
  /// Errors: kTooLarge; nothing may be taken afterwards.
  template <class OnLine>
  [[nodiscard]] Result<void> take(std::string_view data, OnLine on_line) {
    while (!data.empty()) {
      const std::size_t end = data.find('\n');
      const std::string_view piece = data.substr(0, end);
      if (waiting_.size() + piece.size() > most_bytes_) {
        waiting_.clear();
        return fail(ErrorCode::kTooLarge, "a line of more than " + std::to_string(most_bytes_) + " bytes");
      }
      if (end == std::string_view::npos) {
        waiting_ += piece;
        return {};
      }
      data.remove_prefix(end + 1);
      waiting_ += piece;
      const std::string line = std::move(waiting_);
      waiting_.clear();
      if (!line.empty() && !on_line(std::string_view(line))) return {};
    }
    return {};
  }

 private:
  std::size_t most_bytes_;
  std::string waiting_;  // the beginning of a line
};

}  // namespace kvist::kubernetes

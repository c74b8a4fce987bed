// Assembles the parts of an answer from what a parser of calls finds.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/tool_calls/tool_call_parser.h"

namespace kvist::tool_calls {

/// Adjacent content becomes one part. White space before and after calls is dropped.
class PartWriter {
 public:
  /// Sets where parts are written, until the next call of this function.
  void write_to(std::vector<AnswerPart>& out) { out_ = &out; }

  void content(char byte);
  void content(std::string_view text) {
    for (const char byte : text) content(byte);
  }
  /// Whether so many calls are within ToolCallParser::kMostCalls.
  [[nodiscard]] bool takes(std::size_t calls) const { return calls <= ToolCallParser::kMostCalls - calls_; }
  /// Appends a call. Requires: takes() is true for it.
  void call(text::ToolCall call);
  /// No call follows, so white space at the end is content.
  void finish();

 private:
  void append(std::string_view text);

  std::vector<AnswerPart>* out_ = nullptr;
  std::string space_;        // white space at the end so far, because a call may follow
  bool after_call_ = false;  // only white space has come since a call
  std::size_t calls_ = 0;
};

}  // namespace kvist::tool_calls

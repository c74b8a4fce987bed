// The parts of an answer, put together from what a parser of calls finds.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/tool_calls/tool_call_parser.h"

namespace kvist::tool_calls {

/// Neighbouring content becomes one part; white space before and behind calls is dropped.
class PartWriter {
 public:
  /// Parts go to `out` until the next call of this.
  void write_to(std::vector<AnswerPart>& out) { out_ = &out; }

  void content(char byte);
  void content(std::string_view text) {
    for (const char byte : text) content(byte);
  }
  /// Whether so many more calls are within ToolCallParser::kMostCalls.
  [[nodiscard]] bool takes(std::size_t calls) const { return calls <= ToolCallParser::kMostCalls - calls_; }
  /// Requires that it takes one.
  void call(text::ToolCall call);
  /// No call follows: white space at the end is content.
  void finish();

 private:
  void append(std::string_view text);

  std::vector<AnswerPart>* out_ = nullptr;
  std::string space_;        // at the end so far: a call may follow
  bool after_call_ = false;  // nothing but white space has come since
  std::size_t calls_ = 0;
};

}  // namespace kvist::tool_calls

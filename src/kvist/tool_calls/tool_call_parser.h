// Calls of tools in a model's answer, found while its text comes.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/spec/tool_call_format.h"
#include "kvist/text/chat.h"

namespace kvist::tool_calls {

/// A part of an answer: text for people, or a call.
struct AnswerPart {
  std::string content;                      ///< empty beside a call
  std::optional<text::ToolCall> call = {};  ///< without an id: whoever answers gives one
};

/// Tells calls from text in one answer, fed in pieces. However the text is cut into pieces, the parts put together are
/// the same. A call comes when it is whole and well formed; whatever begins like one and is none (broken JSON, no name,
/// too deep, too long, cut off) is content, as it was written. White space between content and calls is nobody's.
/// Held back are at most kMostCallBytes. Work is linear in the text. Owned by one answer; not thread-safe.
class ToolCallParser {
 public:
  /// A longer text is no call.
  static constexpr std::size_t kMostCallBytes = 1UL << 20;
  /// What comes after so many is content.
  static constexpr std::size_t kMostCalls = 128;

  virtual ~ToolCallParser() = default;
  /// Appends what the text up to here surely is. Requires UTF-8.
  virtual void push(std::string_view text, std::vector<AnswerPart>& out) = 0;
  /// Appends what was held back.
  virtual void finish(std::vector<AnswerPart>& out) = 0;
};

/// Texts that begin or end calls and are special tokens in some vocabularies of the family. Special tokens have no
/// text: whoever decodes puts the spelling of these there.
[[nodiscard]] std::span<const std::string_view> tool_call_marks(spec::ToolCallFormat format);

[[nodiscard]] std::unique_ptr<ToolCallParser> make_tool_call_parser(spec::ToolCallFormat format);

}  // namespace kvist::tool_calls

// Finds tool calls in a model's answer while its text arrives.
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

/// A part of an answer: text for the user, or a call.
struct AnswerPart {
  std::string content;                      ///< empty if the part is a call
  std::optional<text::ToolCall> call = {};  ///< without an id, which the worker adds
};

/// Separates calls from text in one answer, which is fed in pieces. The parts do not depend on how the text is cut. A
/// call is returned when it is complete and well formed. Text that begins like a call but is not one (broken JSON, no
/// name, too deep, too long, cut off) is content, unchanged. White space between content and calls is dropped. At most
/// kMostCallBytes are held back. The time is linear in the text. Owned by one answer. Threads: one at a time.
class ToolCallParser {
 public:
  /// A longer text is not a call.
  static constexpr std::size_t kMostCallBytes = 1UL << 20;
  /// After so many calls, everything is content.
  static constexpr std::size_t kMostCalls = 128;

  virtual ~ToolCallParser() = default;
  /// Appends the parts that are certain after this text. Requires: valid UTF-8.
  virtual void push(std::string_view text, std::vector<AnswerPart>& out) = 0;
  /// The answer has ended. Appends the parts that were held back.
  virtual void finish(std::vector<AnswerPart>& out) = 0;
};

/// Texts that begin or end calls and are special tokens in some vocabularies of the model family. Special tokens decode
/// to no text, so a decoder has to insert the spelling of these.
[[nodiscard]] std::span<const std::string_view> tool_call_marks(spec::ToolCallFormat format);

[[nodiscard]] std::unique_ptr<ToolCallParser> make_tool_call_parser(spec::ToolCallFormat format);

}  // namespace kvist::tool_calls

// Formats in which a mark precedes calls, with text around them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "kvist/tool_calls/json_scanner.h"
#include "kvist/tool_calls/part_writer.h"
#include "kvist/tool_calls/tool_call_parser.h"

namespace kvist::tool_calls {

/// Hermes: `begin` {call} `end`, repeated per call; at the end of the answer the end mark may be missing. Mistral:
/// `begin` [calls], without an end mark, or as its models since 2025 write it, repeated per call: `begin` name, perhaps
/// kMistralId and an id, perhaps kMistralArguments, and {arguments}. Requires: the first byte of a mark occurs in it
/// only once.
class MarkedCallParser final : public ToolCallParser {
 public:
  static constexpr std::string_view kHermesBegin = "<tool_call>";
  static constexpr std::string_view kHermesEnd = "</tool_call>";
  static constexpr std::string_view kMistralBegin = "[TOOL_CALLS]";
  static constexpr std::string_view kMistralId = "[CALL_ID]";
  static constexpr std::string_view kMistralArguments = "[ARGS]";

  /// `opening` is the first byte of the JSON after the begin mark, '{' or '['; behind a '[', names are taken too, as
  /// Mistral writes them. `end` may be empty.
  MarkedCallParser(std::string_view begin, char opening, std::string_view end)
      : begin_(begin), end_(end), opening_(opening) {}

  void push(std::string_view text, std::vector<AnswerPart>& out) override;
  void finish(std::vector<AnswerPart>& out) override;

 private:
  enum class Place { kContent, kBeforeJson, kName, kJson, kBehindJson };

  void push(char byte);
  void push_content(char byte);
  void push_json(char byte);
  void push_name(char byte);
  void begin_json(char byte);
  void push_end(char byte);
  /// The held text is content. `byte` may be content or begin a mark.
  void give_up(char byte);
  /// The held text is a complete JSON text: appends its calls, or the text as content if it has none.
  void accept();
  /// The calls of the held JSON text; none if it is not one.
  [[nodiscard]] std::vector<text::ToolCall> calls() const;

  std::string_view begin_;
  std::string_view end_;
  char opening_;
  PartWriter parts_;
  Place place_ = Place::kContent;
  std::size_t matched_ = 0;  // number of matched bytes of the mark that is searched for
  JsonScanner json_;
  std::string held_;            // from the begin mark on
  std::size_t name_begin_ = 0;  // in `held_`; 0 if no name is before the JSON
  std::size_t name_end_ = 0;
  std::size_t json_begin_ = 0;  // in `held_`
  std::size_t json_end_ = 0;
};

}  // namespace kvist::tool_calls

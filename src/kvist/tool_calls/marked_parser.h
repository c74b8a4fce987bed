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
/// `begin` [calls], without an end mark. Requires: the first byte of a mark occurs in it only once.
class MarkedCallParser final : public ToolCallParser {
 public:
  static constexpr std::string_view kHermesBegin = "<tool_call>";
  static constexpr std::string_view kHermesEnd = "</tool_call>";
  static constexpr std::string_view kMistralBegin = "[TOOL_CALLS]";

  /// `opening` is the first byte of the JSON after the begin mark, '{' or '['. `end` may be empty.
  MarkedCallParser(std::string_view begin, char opening, std::string_view end)
      : begin_(begin), end_(end), opening_(opening) {}

  void push(std::string_view text, std::vector<AnswerPart>& out) override;
  void finish(std::vector<AnswerPart>& out) override;

 private:
  enum class Place { kContent, kBeforeJson, kJson, kBehindJson };

  void push(char byte);
  void push_content(char byte);
  void push_json(char byte);
  void push_end(char byte);
  /// The held text is content. `byte` may be content or begin a mark.
  void give_up(char byte);
  /// The held text is a complete JSON text: appends its calls, or the text as content if it has none.
  void accept();

  std::string_view begin_;
  std::string_view end_;
  char opening_;
  PartWriter parts_;
  Place place_ = Place::kContent;
  std::size_t matched_ = 0;  // number of matched bytes of the mark that is searched for
  JsonScanner json_;
  std::string held_;            // from the begin mark on
  std::size_t json_begin_ = 0;  // in `held_`
  std::size_t json_end_ = 0;
};

}  // namespace kvist::tool_calls

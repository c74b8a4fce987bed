// Formats in which a mark goes before calls, and text may stand around them.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "kvist/tool_calls/json_scanner.h"
#include "kvist/tool_calls/part_writer.h"
#include "kvist/tool_calls/tool_call_parser.h"

namespace kvist::tool_calls {

/// Hermes: `begin` {call} `end`, as often as there are calls; at the end of the answer the end mark may be missing.
/// Mistral: `begin` [calls], without an end mark. The first byte of a mark occurs in it once.
class MarkedCallParser final : public ToolCallParser {
 public:
  static constexpr std::string_view kHermesBegin = "<tool_call>";
  static constexpr std::string_view kHermesEnd = "</tool_call>";
  static constexpr std::string_view kMistralBegin = "[TOOL_CALLS]";

  /// `opening`: what the JSON behind the begin mark opens with, '{' or '['. `end` may be empty.
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
  /// What is held is content, and so may `byte` be.
  void give_up(char byte);
  /// What is held is calls, or content after all.
  void accept();

  std::string_view begin_;
  std::string_view end_;
  char opening_;
  PartWriter parts_;
  Place place_ = Place::kContent;
  std::size_t matched_ = 0;  // bytes of the mark that is looked for
  JsonScanner json_;
  std::string held_;            // from the begin mark on
  std::size_t json_begin_ = 0;  // in `held_`
  std::size_t json_end_ = 0;
};

}  // namespace kvist::tool_calls

// Calls as Llama 3.1 and its successors write them.
#pragma once

#include <string>
#include <string_view>

#include "kvist/tool_calls/json_scanner.h"
#include "kvist/tool_calls/part_writer.h"
#include "kvist/tool_calls/tool_call_parser.h"

namespace kvist::tool_calls {

/// An answer that begins with a JSON object, or with the mark and one, consists of calls as long as objects that are
/// calls follow, separated by white space or a semicolon. From the first other text on, everything is content, because
/// a call differs from JSON for the user only by its place.
class Llama3JsonParser final : public ToolCallParser {
 public:
  static constexpr std::string_view kMark = "<|python_tag|>";

  void push(std::string_view text, std::vector<AnswerPart>& out) override;
  void finish(std::vector<AnswerPart>& out) override;

 private:
  enum class Place { kBegin, kJson, kBehindCall, kContent };

  void push(char byte);
  void push_before(char byte);
  void push_json(char byte);
  void give_up();

  PartWriter parts_;
  Place place_ = Place::kBegin;
  std::size_t matched_ = 0;  // number of matched bytes of the mark
  JsonScanner json_;
  std::string held_;
  std::size_t json_begin_ = 0;  // in `held_`
};

}  // namespace kvist::tool_calls

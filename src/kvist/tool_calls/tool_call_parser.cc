#include "kvist/tool_calls/tool_call_parser.h"

#include <array>

#include "kvist/base/check.h"
#include "kvist/tool_calls/llama3_json_parser.h"
#include "kvist/tool_calls/marked_parser.h"

namespace kvist::tool_calls {
namespace {

constexpr std::array kHermesMarks = {MarkedCallParser::kHermesBegin, MarkedCallParser::kHermesEnd};
constexpr std::array kLlama3Marks = {Llama3JsonParser::kMark};
constexpr std::array kMistralMarks = {MarkedCallParser::kMistralBegin, MarkedCallParser::kMistralId,
                                      MarkedCallParser::kMistralArguments};

}  // namespace

std::span<const std::string_view> tool_call_marks(spec::ToolCallFormat format) {
  switch (format) {
    case spec::ToolCallFormat::kHermes:
      return kHermesMarks;
    case spec::ToolCallFormat::kLlama3Json:
      return kLlama3Marks;
    case spec::ToolCallFormat::kMistral:
      return kMistralMarks;
  }
  KVIST_CHECK(false, "a format without marks");
}

std::unique_ptr<ToolCallParser> make_tool_call_parser(spec::ToolCallFormat format) {
  switch (format) {
    case spec::ToolCallFormat::kHermes:
      return std::make_unique<MarkedCallParser>(MarkedCallParser::kHermesBegin, '{', MarkedCallParser::kHermesEnd);
    case spec::ToolCallFormat::kLlama3Json:
      return std::make_unique<Llama3JsonParser>();
    case spec::ToolCallFormat::kMistral:
      return std::make_unique<MarkedCallParser>(MarkedCallParser::kMistralBegin, '[', "");
  }
  KVIST_CHECK(false, "a format without a parser");
}

}  // namespace kvist::tool_calls

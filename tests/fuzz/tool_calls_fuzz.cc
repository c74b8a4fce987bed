// fuzz: tool_calls
// Answers that may contain tool calls: in pieces they are read as in one piece, and text that is no call is never lost.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "kvist/base/check.h"
#include "kvist/tool_calls/tool_call_parser.h"

namespace {

using namespace kvist;

std::string read(spec::ToolCallFormat format, std::string_view text, std::size_t piece, std::size_t& calls) {
  const auto parser = tool_calls::make_tool_call_parser(format);
  std::vector<tool_calls::AnswerPart> parts;
  for (std::size_t at = 0; at < text.size(); at += piece) parser->push(text.substr(at, piece), parts);
  parser->finish(parts);
  std::string all;
  calls = 0;
  for (const tool_calls::AnswerPart& part : parts) {
    all += part.content;
    if (!part.call) continue;
    ++calls;
    KVIST_CHECK(!part.call->name.empty() && part.call->arguments.starts_with('{'), "a call without a name");
    all += "\x01" + part.call->name + "\x02" + part.call->arguments;
  }
  return all;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const spec::ToolCallFormat format :
       {spec::ToolCallFormat::kHermes, spec::ToolCallFormat::kLlama3Json, spec::ToolCallFormat::kMistral}) {
    std::size_t calls = 0;
    const std::string whole = read(format, text, std::max<std::size_t>(size, 1), calls);
    KVIST_CHECK(calls > 0 || whole == text, "content is lost");
    KVIST_CHECK(read(format, text, 5, calls) == whole, "pieces matter");
  }
  return 0;
}

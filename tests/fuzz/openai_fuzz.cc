// fuzz: openai
// Every parser of the module on any text; and with_usage_requested must turn a valid request into one that requests
// usage, with_resumption into one that resumes, with_model into one for another model. JsonScanner, on which they rest,
// must find what a look at each byte finds, and ChunkFrame, that learned the first line, must say of the second what
// its parser says.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "kvist/base/check.h"
#include "kvist/openai/body_edit.h"
#include "kvist/openai/chunk_frame.h"
#include "kvist/openai/codec.h"
#include "kvist/openai/errors.h"
#include "kvist/openai/json_scanner.h"
#include "kvist/openai/resumption.h"
#include "kvist/openai/tokenize.h"

namespace {

using kvist::Result;
namespace openai = kvist::openai;

std::size_t end_of_string(std::string_view text, std::size_t begin) {
  for (std::size_t i = begin + 1; i < text.size(); ++i) {
    if (text[i] == '"') return i + 1;
    if (text[i] == '\\') ++i;
  }
  return std::string_view::npos;
}

void check_scanner(std::string_view text) {
  if (!text.starts_with('"') && !text.starts_with('{') && !text.starts_with('[')) return;
  std::size_t depth = 0;
  std::size_t end = 0;
  do {
    const char c = end < text.size() ? text[end] : '\0';
    if (end >= text.size()) {
      end = std::string_view::npos;
    } else if (c == '"') {
      end = end_of_string(text, end);
    } else {
      if (c == '{' || c == '[') ++depth;
      if (c == '}' || c == ']') --depth;
      ++end;
    }
  } while (end != std::string_view::npos && depth > 0);
  KVIST_CHECK(openai::JsonScanner(text).skip_value(0) == end, "the scanner finds another end");
}

template <class Request>
void check_model_edit(std::string_view body, const Request& request,
                      Result<Request> (*parse)(std::string_view, openai::ReadFor), openai::ReadFor purpose) {
  if (!request.options.model.empty())
    KVIST_CHECK(openai::model_of(body) == request.options.model, "it is looked up as it is read");
  const Result<std::string> named = openai::with_model(body, "a \"b\"");
  KVIST_CHECK(named.has_value(), named.error().message);
  const Result<Request> again = parse(*named, purpose);
  KVIST_CHECK(again.has_value(), again.error().message + " in " + *named);
  if (!request.options.model.empty())
    KVIST_CHECK(again->options.model == "a \"b\"", "it is read as written: " + *named);
}

template <class Request>
void check_usage_edit(std::string_view body, Result<Request> (*parse)(std::string_view, openai::ReadFor),
                      openai::ReadFor purpose) {
  const Result<Request> request = parse(body, purpose);
  if (!request) {
    const std::string error = openai::error_body(request.error());
    KVIST_CHECK(openai::parse_chunk(error).has_value(), "an error body is an error frame: " + error);
    return;
  }
  const Result<std::string> edited = openai::with_usage_requested(body);
  KVIST_CHECK(edited.has_value(), edited.error().message);
  const Result<Request> again = parse(*edited, purpose);
  KVIST_CHECK(again.has_value(), again.error().message + " in " + *edited);
  KVIST_CHECK(again->options.include_usage || *edited == body, "usage is not requested by " + *edited);
  KVIST_CHECK(again->options.model == request->options.model, "the model changed in " + *edited);
  KVIST_CHECK(openai::with_usage_requested(*edited) == *edited, "a second edit changed " + *edited);
  check_model_edit(body, *request, parse, purpose);
  if (!request->options.stream || body.contains("resume") || body.contains('\\')) return;
  const openai::Resumption resumption{.tokens = {kvist::TokenId(7), kvist::TokenId(1)}, .created = 5};
  const Result<Request> resumed = parse(openai::with_resumption(body, resumption.tokens, resumption.created), purpose);
  KVIST_CHECK(resumed.has_value(), resumed.error().message);
  KVIST_CHECK(purpose == openai::ReadFor::kRouting || resumed->options.resumption == resumption,
              "it is read as written");
}

void check_frame(std::string_view text) {
  const std::size_t line_end = text.find('\n');
  if (line_end == std::string_view::npos) return;
  const std::string_view first = text.substr(0, line_end);
  const std::string_view second = text.substr(line_end + 1);
  const auto learned = openai::parse_chunk(first);
  if (!learned) return;
  openai::ChunkFrame frame;
  frame.learn(first, *learned);
  const auto content = frame.content_of(second);
  if (!content) return;
  const auto parsed = openai::parse_chunk(second);
  KVIST_CHECK(parsed.has_value() && parsed->content == *content, "the frame reads another content");
  KVIST_CHECK(!parsed->finish_reason && !parsed->usage && !parsed->error, "the frame leaves something out");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const openai::ReadFor purpose : {openai::ReadFor::kAnswer, openai::ReadFor::kRouting}) {
    check_usage_edit<openai::ChatRequest>(text, &openai::parse_chat_request, purpose);
    check_usage_edit<openai::CompletionRequest>(text, &openai::parse_completion_request, purpose);
  }
  check_scanner(text);
  static_cast<void>(openai::model_of(text));
  static_cast<void>(openai::with_usage_requested(text));
  static_cast<void>(openai::model_of(text));
  static_cast<void>(openai::with_model(text, "m"));
  if (const auto named = openai::with_priority(text, 7)) {
    const openai::AskedPriority asked = openai::priority_of(*named);
    KVIST_CHECK(!asked.is_plain || asked.value == 7, "a priority is read back as it was written");
  }
  static_cast<void>(openai::parse_tokenize_request(text));
  static_cast<void>(openai::parse_detokenize_request(text));
  static_cast<void>(openai::parse_tokenize_answer(text));
  static_cast<void>(openai::parse_chunk(text));
  check_frame(text);
  if (const auto models = openai::parse_model_list(text)) {
    const auto again = openai::parse_model_list(openai::model_list(*models));
    KVIST_CHECK(again.has_value() && *again == *models, "a list of models is read back as it was written");
  }
  return 0;
}

// Reads stream chunks, whole answers and error frames. It is called once per SSE event, so it has to be fast: it uses
// simdjson directly, without paths for errors, and skips fields that are not needed.
#include <simdjson.h>

#include <fmt/format.h>

#include <limits>
#include <optional>

#include "kvist/openai/codec.h"
#include "kvist/openai/json_body.h"

namespace kvist::openai {
namespace {

using simdjson::SUCCESS;
using simdjson::dom::array;
using simdjson::dom::element_type;
using simdjson::dom::object;
using JsonElement = simdjson::dom::element;

constexpr std::size_t kSharedParserBytes = 1UL << 20;
/// Longer fingerprints are ignored, because one is kept per worker.
constexpr std::size_t kMaxFingerprintBytes = 256;

std::unexpected<Error> corrupt(std::string_view what) {
  return fail(ErrorCode::kCorrupt, fmt::format("answer: {}", what));
}

std::string_view kind_of(JsonElement element) {
  switch (element.type()) {
    case element_type::ARRAY:
      return "an array";
    case element_type::OBJECT:
      return "an object";
    case element_type::STRING:
      return "a string";
    case element_type::BOOL:
      return "a boolean";
    case element_type::NULL_VALUE:
      return "null";
    default:
      return "a number";
  }
}

// The field's value; nothing if it is absent or null.
std::optional<JsonElement> field(const object& from, std::string_view name) {
  JsonElement element;
  if (from.at_key(name).get(element) != SUCCESS || element.is_null()) return std::nullopt;
  return element;
}

Result<std::uint32_t> read_count(const object& from, std::string_view name) {
  const std::optional<JsonElement> element = field(from, name);
  if (!element) return 0U;
  std::uint64_t count = 0;
  if (element->get(count) != SUCCESS || count > std::numeric_limits<std::uint32_t>::max())
    return corrupt(fmt::format("usage.{}: expected a count, got {}", name, kind_of(*element)));
  return static_cast<std::uint32_t>(count);
}

Result<Usage> read_usage(JsonElement element) {
  object from;
  if (element.get(from) != SUCCESS) return corrupt(fmt::format("usage: expected an object, got {}", kind_of(element)));
  Usage usage;
  KVIST_TRY(usage.prompt_tokens, read_count(from, "prompt_tokens"));
  KVIST_TRY(usage.completion_tokens, read_count(from, "completion_tokens"));
  object details;
  const std::optional<JsonElement> details_element = field(from, "prompt_tokens_details");
  if (details_element && details_element->get(details) == SUCCESS) {
    KVIST_TRY(usage.cached_tokens, read_count(details, "cached_tokens"));
    usage.reports_cached_tokens = field(details, "cached_tokens").has_value();
  }
  return usage;
}

// {"error":{"message":...}}, {"error":"..."}, or vLLM's older {"object":"error","message":...}.
std::optional<std::string> read_error(const object& root) {
  std::optional<JsonElement> element = field(root, "error");
  if (!element) {
    std::string_view kind;
    const std::optional<JsonElement> root_kind = field(root, "object");
    if (!root_kind || root_kind->get(kind) != SUCCESS || kind != "error") return std::nullopt;
    element = field(root, "message");
  }
  if (!element) return "unnamed error";
  std::string_view text;
  if (element->get(text) == SUCCESS) return std::string(text);
  object error;
  if (element->get(error) == SUCCESS) {
    const std::optional<JsonElement> message = field(error, "message");
    if (message && message->get(text) == SUCCESS) return std::string(text);
  }
  return simdjson::minify(*element);
}

// The `code` of an error if it is a number, as in vLLM: the HTTP status of the error.
int read_error_status(const object& root) {
  object error;
  const std::optional<JsonElement> element = field(root, "error");
  const bool nested = element && element->get(error) == SUCCESS;
  const std::optional<JsonElement> code = field(nested ? error : root, "code");
  std::int64_t status = 0;
  return code && code->get(status) == SUCCESS && status >= 100 && status <= 599 ? static_cast<int>(status) : 0;
}

Result<void> read_text(const object& from, std::string_view name, std::string& out) {
  const std::optional<JsonElement> element = field(from, name);
  if (!element) return {};
  std::string_view text;
  if (element->get(text) != SUCCESS)
    return corrupt(fmt::format("choices[0]: {} is {}, not a string", name, kind_of(*element)));
  out.assign(text);
  return {};
}

// Engines and their parsers name the parts of an answer that are no content differently.
bool generates_beside_content(const object& message) {
  for (const std::string_view name : {"reasoning_content", "reasoning", "refusal"}) {
    std::string_view text;
    const std::optional<JsonElement> element = field(message, name);
    if (element && element->get(text) == SUCCESS && !text.empty()) return true;
  }
  array calls;
  const std::optional<JsonElement> tool_calls = field(message, "tool_calls");
  if (tool_calls && tool_calls->get(calls) == SUCCESS && calls.begin() != calls.end()) return true;
  return field(message, "function_call").has_value();
}

Result<void> read_choice(JsonElement element, ChunkView& view) {
  object choice;
  if (element.get(choice) != SUCCESS)
    return corrupt(fmt::format("choices[0]: expected an object, got {}", kind_of(element)));
  std::optional<JsonElement> message = field(choice, "delta");
  if (!message) message = field(choice, "message");
  if (message) {
    object from;
    if (message->get(from) != SUCCESS)
      return corrupt(fmt::format("choices[0].delta: expected an object, got {}", kind_of(*message)));
    view.has_role = field(from, "role").has_value();
    KVIST_TRY_VOID(read_text(from, "content", view.content));
    view.generates = !view.content.empty() || generates_beside_content(from);
  } else {
    KVIST_TRY_VOID(read_text(choice, "text", view.content));
    view.generates = !view.content.empty();
  }
  if (field(choice, "finish_reason")) {
    KVIST_TRY_VOID(read_text(choice, "finish_reason", view.finish_reason.emplace()));
  }
  return {};
}

Result<ChunkView> read_chunk(const object& root) {
  ChunkView view;
  const std::optional<JsonElement> choices_element = field(root, "choices");
  if (!choices_element) {
    view.error = read_error(root);
    if (!view.error) return corrupt("neither choices nor an error");
    view.error_status = read_error_status(root);
    return view;
  }
  array choices;
  if (choices_element->get(choices) != SUCCESS)
    return corrupt(fmt::format("choices: expected an array, got {}", kind_of(*choices_element)));
  view.usage_only = choices.begin() == choices.end();
  if (!view.usage_only) {
    KVIST_TRY_VOID(read_choice(*choices.begin(), view));
  }
  if (const std::optional<JsonElement> usage = field(root, "usage")) {
    KVIST_TRY(view.usage, read_usage(*usage));
  }
  // An error next to choices, as some servers send when they fail in the middle of an answer.
  if (field(root, "error")) {
    view.error = read_error(root);
    view.error_status = read_error_status(root);
  }
  std::string_view fingerprint;
  const std::optional<JsonElement> fingerprint_element = field(root, "system_fingerprint");
  if (fingerprint_element && fingerprint_element->get(fingerprint) == SUCCESS &&
      fingerprint.size() <= kMaxFingerprintBytes)
    view.system_fingerprint = fingerprint;
  return view;
}

}  // namespace

Result<ChunkView> parse_chunk(std::string_view json) {
  if (json.size() > kMaxJsonBytes)
    return fail(ErrorCode::kTooLarge, fmt::format("answer: {} bytes, at most {} are read", json.size(), kMaxJsonBytes));
  // Small texts share a parser per thread and so allocate nothing; its memory is about ten times the largest of them.
  thread_local simdjson::dom::parser shared;
  std::optional<simdjson::dom::parser> own;
  simdjson::dom::parser& parser = json.size() > kSharedParserBytes ? own.emplace() : shared;
  JsonElement root;
  const simdjson::error_code error = parser.parse(json.data(), json.size()).get(root);
  if (error != SUCCESS) return corrupt(fmt::format("not valid JSON: {}", simdjson::error_message(error)));
  object from;
  if (root.get(from) != SUCCESS) return corrupt(fmt::format("expected an object, got {}", kind_of(root)));
  return read_chunk(from);
}

}  // namespace kvist::openai

#include "kvist/text/jinja_chat_template.h"

#include <fmt/format.h>
#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kvist/jinja/code_points.h"
#include "kvist/jinja/json_value.h"

namespace kvist::text {
namespace {

using jinja::Value;

// Builds a dictionary. Names of fields count as written by the template, their values as coming with the messages.
class Fields {
 public:
  explicit Fields(jinja::Meter& meter) : meter_(&meter) {}

  void add(std::string_view name, Value value) {
    entries_.emplace_back(Value(std::make_shared<const jinja::MarkedText>(std::string(name))), std::move(value));
  }
  Result<void> add_text(std::string_view name, const std::string& text) {
    if (!jinja::is_valid_utf8(text))
      return fail(ErrorCode::kInvalidArgument, fmt::format("{}: is not valid UTF-8", name));
    KVIST_TRY(Value value, jinja::make_text(*meter_, jinja::MarkedText(text, true)));
    add(name, std::move(value));
    return {};
  }
  Result<Value> take() { return jinja::make_dict(*meter_, std::move(entries_)); }

 private:
  jinja::Meter* meter_;
  std::vector<std::pair<Value, Value>> entries_;
};

// Templates get a call's arguments as a dictionary. Arguments that are not a JSON object become an empty one, as in
// vLLM, because they are part of the history and an error would end the conversation.
Result<void> add_arguments(jinja::Meter& meter, const ToolCall& call, Fields& function) {
  if (const Result<Value> parsed = jinja::value_of_json(meter, call.arguments, true); parsed && parsed->dict()) {
    function.add("arguments", *parsed);
    return {};
  }
  KVIST_TRY(Value none, jinja::make_dict(meter, {}));
  function.add("arguments", std::move(none));
  return {};
}

// Contents as text, or as a list of {"type": "text", "text": ...}. `open_end` is written after the last text.
class Contents {
 public:
  Contents(jinja::Meter& meter, bool as_items) : meter_(&meter), as_items_(as_items) {}

  Result<void> add(const ChatMessage& message, std::string_view open_end, Fields& fields) const {
    if (!as_items_ || message.role == "tool") {
      if (open_end.empty()) return fields.add_text("content", message.content);
      return fields.add_text("content", message.content + std::string(open_end));
    }
    std::vector<std::string> texts = message.content_parts;
    if (texts.empty() && !message.content.empty()) texts.push_back(message.content);
    if (!texts.empty()) texts.back() += open_end;
    std::vector<Value> items;
    for (const std::string& text : texts) {
      Fields item(*meter_);
      item.add("type", std::make_shared<const jinja::MarkedText>("text"));
      KVIST_TRY_VOID(item.add_text("text", text));
      KVIST_TRY(Value made, item.take());
      items.push_back(std::move(made));
    }
    KVIST_TRY(Value list, jinja::make_list(*meter_, std::move(items)));
    fields.add("content", std::move(list));
    return {};
  }

 private:
  jinja::Meter* meter_;
  bool as_items_;
};

Result<Value> value_of(jinja::Meter& meter, const ToolCall& call) {
  Fields function(meter);
  KVIST_TRY_VOID(function.add_text("name", call.name));
  KVIST_TRY_VOID(add_arguments(meter, call, function));
  KVIST_TRY(Value made, function.take());
  Fields fields(meter);
  if (!call.id.empty()) KVIST_TRY_VOID(fields.add_text("id", call.id));
  fields.add("type", std::make_shared<const jinja::MarkedText>("function"));
  fields.add("function", std::move(made));
  return fields.take();
}

Result<Value> value_of(jinja::Meter& meter, const ChatMessage& message, const Contents& contents,
                       std::string_view open_end) {
  Fields fields(meter);
  KVIST_TRY_VOID(fields.add_text("role", message.role));
  KVIST_TRY_VOID(contents.add(message, open_end, fields));
  if (!message.reasoning.empty()) {
    KVIST_TRY_VOID(fields.add_text("reasoning", message.reasoning));
    KVIST_TRY_VOID(fields.add_text("reasoning_content", message.reasoning));
  }
  if (!message.name.empty()) KVIST_TRY_VOID(fields.add_text("name", message.name));
  if (!message.tool_call_id.empty()) KVIST_TRY_VOID(fields.add_text("tool_call_id", message.tool_call_id));
  if (!message.tool_calls.empty()) {
    std::vector<Value> calls;
    for (const ToolCall& call : message.tool_calls) {
      KVIST_TRY(Value value, value_of(meter, call));
      calls.push_back(std::move(value));
    }
    KVIST_TRY(Value list, jinja::make_list(meter, std::move(calls)));
    fields.add("tool_calls", std::move(list));
  }
  return fields.take();
}

// `open_end` is written after the last message's content.
Result<Value> value_of(jinja::Meter& meter, std::span<const ChatMessage> messages, const Contents& contents,
                       std::string_view open_end) {
  std::vector<Value> values;
  values.reserve(messages.size());
  for (const ChatMessage& message : messages) {
    Result<Value> value =
        value_of(meter, message, contents, &message == &messages.back() ? open_end : std::string_view());
    if (!value) return std::unexpected(std::move(value).error().in(fmt::format("messages[{}]", values.size())));
    values.push_back(*std::move(value));
  }
  return jinja::make_list(meter, std::move(values));
}

Result<Value> list_of_json(jinja::Meter& meter, std::string_view json, std::string_view name) {
  Result<Value> value = jinja::value_of_json(meter, json, true);
  if (!value) return std::unexpected(std::move(value).error().in(std::string(name)));
  if (value->list() == nullptr)
    return fail(ErrorCode::kInvalidArgument, fmt::format("{}: expected a list, got {}", name, jinja::kind_of(*value)));
  return value;
}

std::string_view without_space(std::string_view text) {
  text.remove_prefix(jinja::leading_space(text));
  return text.substr(0, jinja::size_without_trailing_space(text));
}

// A list of the request. Without one, the template's arguments may contain one; otherwise the name is none.
Result<void> add_list(jinja::Meter& meter, std::string_view name, std::string_view json, const jinja::Dict& arguments,
                      jinja::Template::Variables& variables) {
  if (!json.empty()) {
    KVIST_TRY(Value list, list_of_json(meter, json, name));
    variables.emplace_back(name, std::move(list));
  } else if (arguments.find(name) == nullptr) {
    variables.emplace_back(name, jinja::None());
  }
  return {};
}

// Some templates enable reasoning only by a variable, which vLLM sets if the request names an effort.
Result<void> add_effort(jinja::Meter& meter, std::string_view effort, const jinja::Dict& arguments,
                        jinja::Template::Variables& variables) {
  if (effort.empty()) return {};
  KVIST_TRY(Value text, jinja::make_text(meter, jinja::MarkedText(std::string(effort), true)));
  variables.emplace_back("reasoning_effort", std::move(text));
  if (arguments.find("enable_thinking") == nullptr) variables.emplace_back("enable_thinking", effort != "none");
  return {};
}

const std::string& last_text(const ChatMessage& message, bool as_items) {
  return as_items && !message.content_parts.empty() ? message.content_parts.back() : message.content;
}

// Written after the last message if the prompt is to end there. It is the tag of apply_chat_template() in Hugging
// Face's library, which vLLM calls, so that a template that treats it in some special way does the same here.
constexpr std::string_view kOpenEnd = "CONTINUE_FINAL_MESSAGE_TAG ";

// Removes the tag and what the template wrote after it. If the template trimmed the message, its end is trimmed too.
Result<void> end_at_tag(tokenizer::RenderedPrompt& prompt, std::string_view message) {
  const std::string_view trimmed_tag = kOpenEnd.substr(0, kOpenEnd.size() - 1);
  const std::size_t tag = prompt.text.rfind(trimmed_tag);
  if (tag == std::string::npos || jinja::find_in(prompt.text, without_space(message)) == std::string_view::npos)
    return fail(ErrorCode::kInvalidArgument,
                "continue_final_message: the template does not write the last message as it is");
  const bool is_whole = std::string_view(prompt.text).substr(tag).starts_with(kOpenEnd);
  prompt.text.resize(tag);
  if (!is_whole) prompt.text.resize(jinja::size_without_trailing_space(prompt.text));
  const std::size_t end = prompt.text.size();
  auto& marks = prompt.from_messages;
  while (!marks.empty() && marks.back().begin >= end) marks.pop_back();
  if (!marks.empty()) marks.back().end = std::min(marks.back().end, end);
  return {};
}

constexpr std::string_view kSystem = "system";
constexpr std::string_view kBetween = "\n\n";

// Merges all system messages into one at the front.
std::vector<ChatMessage> merged(std::vector<ChatMessage> messages) {
  ChatMessage system{.role = std::string(kSystem), .content = {}};
  std::vector<ChatMessage> others;
  for (ChatMessage& message : messages) {
    if (message.role != kSystem) {
      others.push_back(std::move(message));
    } else if (!message.content.empty()) {
      if (!system.content.empty()) system.content += kBetween;
      system.content += message.content;
    }
  }
  others.insert(others.begin(), std::move(system));
  return others;
}

/// The conversation with developer messages as system messages, as vLLM passes it to a template that does not use the
/// developer role. If a system message would not be the first, all of them become one, with an empty line between.
/// Nothing if there is no developer message.
std::optional<std::vector<ChatMessage>> developers_as_system(std::span<const ChatMessage> messages) {
  const auto is_developer = [](const ChatMessage& message) { return message.role == "developer"; };
  if (std::ranges::none_of(messages, is_developer)) return std::nullopt;
  std::vector<ChatMessage> converted(messages.begin(), messages.end());
  for (ChatMessage& message : converted)
    if (is_developer(message)) message.role = kSystem;
  const bool only_first =
      std::none_of(converted.begin() + 1, converted.end(), [](const ChatMessage& m) { return m.role == kSystem; });
  if (only_first) return converted;
  return merged(std::move(converted));
}

}  // namespace

Result<JinjaChatTemplate> JinjaChatTemplate::compile(std::string_view source, SpecialTexts special_texts,
                                                     std::string_view for_tools) {
  KVIST_TRY(jinja::Template plain, jinja::Template::compile(source));
  std::optional<jinja::Template> with_tools;
  if (!for_tools.empty()) {
    KVIST_TRY(with_tools, jinja::Template::compile(for_tools));
  }
  for (const auto& [name, text] : special_texts) {
    if (!jinja::is_valid_utf8(text))
      return fail(ErrorCode::kInvalidArgument, fmt::format("{}: is not valid UTF-8", name));
  }
  return JinjaChatTemplate(std::move(plain), std::move(with_tools), std::move(special_texts),
                           fmt::format("{}\n{}", source, for_tools));
}

Result<tokenizer::RenderedPrompt> JinjaChatTemplate::render(const ChatInput& input) const {
  jinja::Meter meter{jinja::Limits()};
  KVIST_TRY(Value arguments, jinja::make_dict(meter, {}));
  if (!input.template_arguments.empty()) {
    KVIST_TRY(arguments, jinja::value_of_json(meter, input.template_arguments, true));
    if (arguments.dict() == nullptr)
      return fail(ErrorCode::kInvalidArgument, "the template's arguments must be a JSON object");
  }
  jinja::Template::Variables variables;
  for (const auto& [name, text] : special_texts_)
    variables.emplace_back(name, std::make_shared<const jinja::MarkedText>(text));
  for (const auto& [name, value] : arguments.dict()->entries) variables.emplace_back(name.text()->bytes(), value);
  const bool tools_given = !input.tools.empty();
  const jinja::Template& chosen = tools_given && for_tools_ ? *for_tools_ : plain_;
  std::optional<std::vector<ChatMessage>> converted;
  if (!names("'developer'") && !names("\"developer\"")) converted = developers_as_system(input.messages);
  const std::span<const ChatMessage> conversation = converted ? std::span(*converted) : input.messages;
  const bool stays_open = input.continue_final_message && !conversation.empty();
  const Contents contents(meter, chosen.reads_content_items());
  KVIST_TRY(Value messages, value_of(meter, conversation, contents, stays_open ? kOpenEnd : std::string_view()));
  variables.emplace_back("messages", std::move(messages));
  variables.emplace_back("add_generation_prompt", input.add_generation_prompt);
  KVIST_TRY_VOID(add_list(meter, "tools", input.tools, *arguments.dict(), variables));
  KVIST_TRY_VOID(add_list(meter, "documents", input.documents, *arguments.dict(), variables));
  KVIST_TRY_VOID(add_effort(meter, input.reasoning_effort, *arguments.dict(), variables));
  KVIST_TRY(jinja::MarkedText text, chosen.render(meter, variables, input.now));
  tokenizer::RenderedPrompt prompt;
  prompt.from_messages.reserve(text.marks().size());
  for (const auto& [begin, end] : text.marks()) prompt.from_messages.push_back({begin, end});
  prompt.text = std::move(text).take_bytes();
  if (stays_open) KVIST_TRY_VOID(end_at_tag(prompt, last_text(conversation.back(), chosen.reads_content_items())));
  return prompt;
}

Result<std::vector<TokenId>> JinjaChatTemplate::tokens(const ChatInput& input, const tokenizer::Tokenizer& tokenizer,
                                                       const PromptEncoding& how) const {
  KVIST_TRY(tokenizer::RenderedPrompt prompt, render(input));
  return encode_prompt(tokenizer, std::move(prompt), how);
}

}  // namespace kvist::text

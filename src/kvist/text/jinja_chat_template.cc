#include "kvist/text/jinja_chat_template.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "kvist/text/jinja/code_points.h"
#include "kvist/text/jinja/json_value.h"

namespace kvist::text {
namespace {

using jinja::Value;

// Names of fields are the template's; what is in them is not.
class Fields {
 public:
  explicit Fields(jinja::Meter& meter) : meter_(&meter) {}

  void add(std::string_view name, Value value) {
    entries_.emplace_back(std::make_shared<const jinja::MarkedText>(std::string(name)), std::move(value));
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
  std::vector<std::pair<jinja::TextPtr, Value>> entries_;
};

// Models are told arguments as the JSON object they are; what a client sends that is none stays a text.
Result<void> add_arguments(jinja::Meter& meter, const ToolCall& call, Fields& function) {
  if (const Result<Value> parsed = jinja::value_of_json(meter, call.arguments, true); parsed && parsed->dict()) {
    function.add("arguments", *parsed);
    return {};
  }
  return function.add_text("arguments", call.arguments);
}

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

Result<Value> value_of(jinja::Meter& meter, const ChatMessage& message) {
  Fields fields(meter);
  KVIST_TRY_VOID(fields.add_text("role", message.role));
  KVIST_TRY_VOID(fields.add_text("content", message.content));
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

Result<Value> value_of(jinja::Meter& meter, std::span<const ChatMessage> messages) {
  std::vector<Value> values;
  values.reserve(messages.size());
  for (const ChatMessage& message : messages) {
    Result<Value> value = value_of(meter, message);
    if (!value) return std::unexpected(std::move(value).error().in(fmt::format("messages[{}]", values.size())));
    values.push_back(*std::move(value));
  }
  return jinja::make_list(meter, std::move(values));
}

Result<Value> value_of_tools(jinja::Meter& meter, std::string_view tools) {
  Result<Value> value = jinja::value_of_json(meter, tools, true);
  if (!value) return std::unexpected(std::move(value).error().in("tools"));
  if (value->list() == nullptr)
    return fail(ErrorCode::kInvalidArgument, fmt::format("tools: expected a list, got {}", jinja::kind_of(*value)));
  return value;
}

std::string_view without_space(std::string_view text) {
  constexpr std::string_view kSpace = " \n\r\t\f\v";
  const std::size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) + 1 - begin);
}

// Cuts off what a template wrote behind the last message. The place, and which space at the message's end stays, are
// those of apply_chat_template() in Hugging Face's library, which vLLM calls.
Result<void> end_with(RenderedPrompt& prompt, std::string_view message) {
  const std::string_view trimmed = without_space(message);
  const std::size_t begin = prompt.text.rfind(trimmed);
  if (trimmed.empty() || begin == std::string::npos) {
    return fail(ErrorCode::kInvalidArgument,
                trimmed.empty() ? "continue_final_message: the last message has no text that could go on"
                                : "continue_final_message: the template does not write the last message as it is");
  }
  std::size_t end = begin + trimmed.size();
  if (prompt.text.compare(begin, message.size(), message) == 0) end = begin + message.size();
  prompt.text.resize(end);
  auto& marks = prompt.from_messages;
  while (!marks.empty() && marks.back().begin >= end) marks.pop_back();
  if (!marks.empty()) marks.back().end = std::min(marks.back().end, end);
  return {};
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

Result<RenderedPrompt> JinjaChatTemplate::render(const ChatInput& input) const {
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
  for (const auto& [name, value] : arguments.dict()->entries) variables.emplace_back(name->bytes(), value);
  KVIST_TRY(Value messages, value_of(meter, input.messages));
  variables.emplace_back("messages", std::move(messages));
  variables.emplace_back("add_generation_prompt", input.add_generation_prompt);
  const bool tools_given = !input.tools.empty();
  Value tools = jinja::None();
  if (tools_given) {
    KVIST_TRY(tools, value_of_tools(meter, input.tools));
  }
  variables.emplace_back("tools", std::move(tools));
  variables.emplace_back("documents", jinja::None());
  const jinja::Template& chosen = tools_given && for_tools_ ? *for_tools_ : plain_;
  KVIST_TRY(jinja::MarkedText text, chosen.render(meter, variables, input.now));
  RenderedPrompt prompt;
  prompt.from_messages.reserve(text.marks().size());
  for (const auto& [begin, end] : text.marks()) prompt.from_messages.push_back({begin, end});
  prompt.text = std::move(text).take_bytes();
  if (input.continue_final_message && !input.messages.empty())
    KVIST_TRY_VOID(end_with(prompt, input.messages.back().content));
  return prompt;
}

Result<std::vector<TokenId>> JinjaChatTemplate::tokens(const ChatInput& input, const Tokenizer& tokenizer) const {
  KVIST_TRY(const RenderedPrompt prompt, render(input));
  std::vector<TokenId> tokens;
  tokenizer.encode_prompt(prompt, tokens);
  return tokens;
}

}  // namespace kvist::text

#include "kvist/dialects/field_names.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

namespace kvist::dialects {
namespace {

struct FieldName {
  std::string_view chat;
  std::string_view own;
  bool same_form = false;  // what follows in a path is the same
};

constexpr auto kOfMessages =
    std::to_array<FieldName>({{"stop", "stop_sequences", true},
                              {"user", "metadata.user_id", true},
                              {"reasoning_effort", "output_config.effort", true},
                              {"response_format", "output_config.format"},
                              {"parallel_tool_calls", "tool_choice.disable_parallel_tool_use", true}});
constexpr auto kOfResponses = std::to_array<FieldName>({{"max_tokens", "max_output_tokens", true},
                                                        {"messages", "input"},
                                                        {"reasoning_effort", "reasoning.effort", true},
                                                        {"response_format", "text.format"}});

std::span<const FieldName> names_of(Dialect dialect) {
  return dialect == Dialect::kResponses ? std::span<const FieldName>(kOfResponses) : kOfMessages;
}

constexpr bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

constexpr bool is_path_character(char c) {
  return is_name_character(c) || c == '.' || c == '[' || c == ']';
}

std::string_view beginning(std::string_view text, bool (*belongs)(char c)) {
  return text.substr(0, static_cast<std::size_t>(std::ranges::find_if_not(text, belongs) - text.begin()));
}

const FieldName* find(Dialect dialect, std::string_view name) {
  const std::span<const FieldName> names = names_of(dialect);
  const auto found = std::ranges::find(names, name, &FieldName::chat);
  return found == names.end() ? nullptr : &*found;
}

}  // namespace

std::string own_path(Dialect dialect, std::string_view path) {
  const std::string_view name = beginning(path, is_name_character);
  const FieldName* const field = find(dialect, name);
  if (field == nullptr) return std::string(path);
  std::string own(field->own);
  if (field->same_form) own += path.substr(name.size());
  return own;
}

std::string in_own_names(Dialect dialect, std::string_view message) {
  std::string out;
  const std::string_view path = beginning(message, is_path_character);
  if (message.substr(path.size()).starts_with(": ")) {
    out = own_path(dialect, path);
    message.remove_prefix(path.size());
  }
  while (!message.empty()) {
    const std::string_view name = beginning(message, is_name_character);
    const FieldName* const field = name.contains('_') ? find(dialect, name) : nullptr;
    out += field != nullptr ? field->own : name;
    message.remove_prefix(name.size());
    const std::string_view between = beginning(message, [](char c) { return !is_name_character(c); });
    out += between;
    message.remove_prefix(between.size());
  }
  return out;
}

}  // namespace kvist::dialects

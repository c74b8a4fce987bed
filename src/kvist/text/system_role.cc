#include "kvist/text/system_role.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

namespace kvist::text {
namespace {

constexpr std::string_view kSystem = "system";
constexpr std::string_view kBetween = "\n\n";

// All system messages in front, as one.
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

}  // namespace

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

}  // namespace kvist::text

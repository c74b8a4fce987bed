// Chat messages, and templates that turn them into a prompt.
#pragma once

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/id.h"
#include "kvist/text/prompt_encoding.h"
#include "kvist/tokenizer/tokenizer.h"

namespace kvist::text {

/// A tool call in an assistant's message.
struct ToolCall {
  std::string id;
  std::string name;
  std::string arguments;  ///< JSON, as the model wrote it
};

struct ChatMessage {
  std::string role;  ///< "system", "user", "assistant", "tool"
  std::string content;
  std::vector<ToolCall> tool_calls = {};
  std::string tool_call_id = {};  ///< id of the call that a tool's message answers; empty: none
  std::string name = {};          ///< of the participant or tool; empty: none
  std::string reasoning = {};     ///< the assistant's reasoning before its answer; empty: none
  /// The texts of which `content` consists, for templates that take them one by one; empty if it is one text, or none.
  std::vector<std::string> content_parts = {};
};

/// What is put between the texts of a message in parts for templates that take one text, as in vLLM.
inline constexpr std::string_view kPartSeparator = "\n";

/// The input of a chat template.
struct ChatInput {
  std::span<const ChatMessage> messages;
  std::string_view tools = {};               ///< JSON array of tools that may be called; empty: none
  std::string_view documents = {};           ///< JSON array of documents that the answer may use; empty: none
  std::string_view reasoning_effort = {};    ///< how long to reason ("none": not at all); empty: not given
  std::string_view template_arguments = {};  ///< JSON object of further variables of the template; empty: none
  bool add_generation_prompt = true;         ///< ends with the header of the assistant's answer
  /// The prompt ends with the last message's text, which the answer continues. Excludes add_generation_prompt.
  bool continue_final_message = false;
  std::optional<std::chrono::local_seconds> now = std::nullopt;  ///< the time for templates that write the date
};

/// A chat template. It places special tokens itself; whether special tokens are also recognised in what users wrote
/// depends on the encoding. Immutable. Threads: any.
class ChatTemplate {
 public:
  virtual ~ChatTemplate() = default;
  /// The prompt tokens of a conversation. An error says why the template refuses it.
  [[nodiscard]] virtual Result<std::vector<TokenId>> tokens(const ChatInput& input,
                                                            const tokenizer::Tokenizer& tokenizer,
                                                            const PromptEncoding& how) const = 0;
  /// Whether the template uses this part of the input ("tools", "tool_calls"). What it does not use is in no prompt.
  [[nodiscard]] virtual bool names(std::string_view part) const = 0;
};

/// begin_of_text, then per message: begin_header role end_header content end_of_turn; at the end the assistant's
/// header. Takes every conversation; tools are not written. For messages m, the prompt of m is a prefix of the prompt
/// of m followed by the answer and more messages, given that the answer ends with kEndOfTurn.
class SimpleChatTemplate final : public ChatTemplate {
 public:
  /// The prompt replaces what is in `prompt`.
  void render(const ChatInput& input, const tokenizer::Tokenizer& tokenizer, std::vector<TokenId>& prompt) const;
  [[nodiscard]] std::vector<TokenId> render(const ChatInput& input, const tokenizer::Tokenizer& tokenizer) const {
    std::vector<TokenId> prompt;
    render(input, tokenizer, prompt);
    return prompt;
  }
  [[nodiscard]] std::vector<TokenId> render(std::initializer_list<ChatMessage> messages,
                                            const tokenizer::Tokenizer& tokenizer) const {
    return render(ChatInput{.messages = std::span(messages.begin(), messages.size())}, tokenizer);
  }
  [[nodiscard]] std::vector<TokenId> render(std::span<const ChatMessage> messages,
                                            const tokenizer::Tokenizer& tokenizer,
                                            bool add_generation_prompt = true) const {
    return render(ChatInput{.messages = messages, .add_generation_prompt = add_generation_prompt}, tokenizer);
  }
  /// Special tokens have no spelling here, so no message can contain one.
  [[nodiscard]] Result<std::vector<TokenId>> tokens(const ChatInput& input, const tokenizer::Tokenizer& tokenizer,
                                                    const PromptEncoding& how) const override {
    std::vector<TokenId> prompt = render(input, tokenizer);
    truncate(prompt, how.truncation);
    return prompt;
  }
  [[nodiscard]] bool names(std::string_view /*part*/) const override { return false; }
};

}  // namespace kvist::text

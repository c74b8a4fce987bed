// The chat templates that models ship.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/jinja/template.h"
#include "kvist/text/chat.h"
#include "kvist/tokenizer/rendered_prompt.h"

namespace kvist::text {

/// A model's own chat template in Jinja. Compiled once, then immutable. Threads: any.
///
/// The variables of a template are `messages` (role, content; tool_calls, tool_call_id and name if present; a call's
/// arguments as a dictionary if they are a JSON object; the assistant's reasoning as reasoning and reasoning_content),
/// `tools`, `documents`, `add_generation_prompt`, the names of special tokens, and the input's further arguments.
///
/// `content` is a text or, for a template with a loop over its items, a list of {"type": "text", "text": ...}. Which of
/// the two is determined by vLLM's rule (jinja::Template::reads_content_items()). A tool's content is always a text.
class JinjaChatTemplate final : public ChatTemplate {
 public:
  /// The names of special tokens in templates, and their texts: {"bos_token", "<s>"}.
  using SpecialTexts = std::vector<std::pair<std::string, std::string>>;

  /// `for_tools` is the template for conversations with tools, if the model has one for them; empty: none.
  [[nodiscard]] static Result<JinjaChatTemplate> compile(std::string_view source, SpecialTexts special_texts = {},
                                                         std::string_view for_tools = {});

  /// Renders the prompt as text, with marks on the bytes that came with the messages, the tools and the arguments.
  /// Errors: kInvalidArgument for an error that the template raised, something that it cannot compute, or input that is
  /// not valid UTF-8 or JSON; kTooLarge beyond jinja::Limits.
  [[nodiscard]] Result<tokenizer::RenderedPrompt> render(const ChatInput& input) const;
  [[nodiscard]] Result<std::vector<TokenId>> tokens(const ChatInput& input, const tokenizer::Tokenizer& tokenizer,
                                                    const PromptEncoding& how) const override;
  [[nodiscard]] bool names(std::string_view part) const override { return sources_.contains(part); }

 private:
  JinjaChatTemplate(jinja::Template plain, std::optional<jinja::Template> for_tools, SpecialTexts special_texts,
                    std::string sources)
      : plain_(std::move(plain)),
        for_tools_(std::move(for_tools)),
        special_texts_(std::move(special_texts)),
        sources_(std::move(sources)) {}

  jinja::Template plain_;
  std::optional<jinja::Template> for_tools_;
  SpecialTexts special_texts_;
  std::string sources_;  // of all templates
};

}  // namespace kvist::text

// Chat templates as models bring them.
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

/// A model's own chat template in Jinja. Compiled once, immutable; any thread may use it.
///
/// Templates see `messages` (role, content; tool_calls, tool_call_id and name where there are any; a call's arguments
/// as a dictionary where they are JSON of one; the assistant's reasoning as reasoning and reasoning_content), `tools`,
/// `documents`, `add_generation_prompt`, the names of special tokens, and the input's further arguments.
///
/// `content` is a text, or, for a template that goes through its items, a list of {"type": "text", "text": ...}: which
/// of the two is found out as vLLM does it (jinja::Template::reads_content_items()). A tool's content always is a text.
class JinjaChatTemplate final : public ChatTemplate {
 public:
  /// Names that templates know special tokens by, and their texts: {"bos_token", "<s>"}.
  using SpecialTexts = std::vector<std::pair<std::string, std::string>>;

  /// `for_tools`: the template of conversations with tools, where the model has one of its own; empty: none.
  [[nodiscard]] static Result<JinjaChatTemplate> compile(std::string_view source, SpecialTexts special_texts = {},
                                                         std::string_view for_tools = {});

  /// The prompt as text, with the bytes that came with the messages, the tools and the arguments. kInvalidArgument:
  /// what the template raised or cannot compute, or input that is no UTF-8 or no JSON; kTooLarge beyond
  /// jinja::Limits.
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

#include "kvist/openai/prompt_fields.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string_view>

namespace kvist::openai {
namespace {

constexpr std::int64_t kMostTokens = std::numeric_limits<std::int32_t>::max();

// For routing, an invalid value counts as absent.
template <typename T>
Result<std::optional<T>> lenient(Result<std::optional<T>> value, ReadFor purpose) {
  if (!value && purpose == ReadFor::kRouting) return std::optional<T>();
  return value;
}

std::int64_t tokens_or(const JsonObject& request, std::string_view field, std::int64_t otherwise) {
  const std::optional<JsonValue> value = request.peek(field);
  const std::optional<std::int64_t> tokens = value ? value->if_int() : std::nullopt;
  return tokens && *tokens >= 0 && *tokens <= kMostTokens ? *tokens : otherwise;
}

bool wants_answer(const JsonObject& request, RequestKind kind) {
  const std::int64_t otherwise = kind == RequestKind::kChat ? 0 : kDefaultCompletionTokens;
  const std::int64_t tokens = tokens_or(request, "max_tokens", otherwise);
  if (kind == RequestKind::kCompletion) return tokens > 0;
  return tokens_or(request, "max_completion_tokens", tokens) > 0;
}

Result<text::Truncation::Side> read_side(const JsonObject& request, ReadFor purpose) {
  using Side = text::Truncation::Side;
  KVIST_TRY(const std::optional<std::string_view> side, lenient(request.find_string("truncation_side"), purpose));
  if (!side) return Side::kDefault;
  if (*side == "left") return Side::kKeepLast;
  if (*side == "right") return Side::kKeepFirst;
  if (purpose == ReadFor::kRouting) return Side::kDefault;
  return request.wrong("truncation_side", R"(expected "left" or "right")");
}

}  // namespace

std::optional<text::Truncation> truncation_of(const PromptOptions& options, std::uint32_t max_model_len) {
  if (options.truncate_to) return text::Truncation{.tokens = *options.truncate_to, .side = options.truncation_side};
  if (!options.truncate_to_context || max_model_len == 0) return std::nullopt;
  return text::Truncation{.tokens = max_model_len - (options.leaves_room_for_answer ? 1U : 0U),
                          .side = options.truncation_side};
}

Result<PromptOptions> read_prompt_options(const JsonObject& request, RequestKind kind, ReadFor purpose) {
  PromptOptions options;
  KVIST_TRY(options.add_special_tokens, lenient(request.find_bool("add_special_tokens"), purpose));
  KVIST_TRY(const std::optional<std::int64_t> tokens,
            lenient(request.find_int("truncate_prompt_tokens", -1, kMostTokens), purpose));
  KVIST_TRY(options.truncation_side, read_side(request, purpose));
  if (!tokens) return options;
  options.truncate_to_context = *tokens < 0;
  if (*tokens >= 0) options.truncate_to = static_cast<std::uint32_t>(*tokens);
  options.leaves_room_for_answer = wants_answer(request, kind);
  return options;
}

std::optional<std::uint32_t> wanted_prompt_logprobs(const GenerationOptions& options) {
  const Sampling& sampling = options.sampling;
  if (!options.echo || !sampling.logprobs) return sampling.prompt_logprobs;
  return std::max(*sampling.logprobs, sampling.prompt_logprobs.value_or(0));
}

bool computes_whole_prompt(const JsonObject& request, RequestKind kind) {
  if (request.peek("prompt_logprobs")) return true;
  // vLLM uses the number of log probabilities of the answer for the prompt too. If it is absent, a chat's is 0, which
  // counts as a number.
  const std::optional<JsonValue> echo = request.peek("echo");
  return echo && echo->if_bool() == true && (kind == RequestKind::kChat || request.peek("logprobs").has_value());
}

}  // namespace kvist::openai

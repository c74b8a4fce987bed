// Bodies of chat, completion, tokenize and detokenize requests as typed values.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <utility>

#include "kvist/openai/codec.h"
#include "kvist/openai/json_body.h"
#include "kvist/openai/message_content.h"
#include "kvist/openai/prompt_fields.h"
#include "kvist/openai/refused_fields.h"
#include "kvist/openai/sampling_fields.h"
#include "kvist/openai/tokenize.h"
#include "kvist/openai/tool_fields.h"

namespace kvist::openai {
namespace {

constexpr std::size_t kMaxCacheSaltBytes = 1024;
constexpr std::array kRoles =
    std::to_array<std::string_view>({"system", "developer", "user", "assistant", "tool", "function"});

Result<std::optional<std::uint32_t>> read_token_limit(const JsonObject& request, std::string_view field,
                                                      std::int64_t least) {
  KVIST_TRY(const std::optional<std::int64_t> limit,
            request.find_int(field, least, std::numeric_limits<std::int32_t>::max()));
  if (!limit) return std::optional<std::uint32_t>();
  return std::optional(static_cast<std::uint32_t>(*limit));
}

// Any 64-bit integer, signed or not.
Result<std::optional<std::uint64_t>> read_seed(const JsonObject& request) {
  KVIST_TRY(const std::optional<JsonValue> value, request.find("seed"));
  if (!value) return std::optional<std::uint64_t>();
  if (const std::optional<std::uint64_t> seed = value->if_unsigned()) return seed;
  if (const std::optional<std::int64_t> seed = value->if_int()) return std::optional(static_cast<std::uint64_t>(*seed));
  return value->expected("a 64-bit integer");
}

// Unknown members are ignored, as unknown fields are.
Result<void> read_stream_options(const JsonObject& request, GenerationOptions& options) {
  KVIST_TRY(const std::optional<JsonObject> stream_options, request.find_object("stream_options"));
  if (!stream_options) return {};
  KVIST_TRY(const std::optional<bool> include_usage, stream_options->find_bool("include_usage"));
  KVIST_TRY(const std::optional<bool> continuous, stream_options->find_bool("continuous_usage_stats"));
  options.include_usage = include_usage.value_or(false);
  options.continuous_usage = continuous.value_or(false);
  return {};
}

Result<std::string> read_cache_salt(const JsonObject& request) {
  KVIST_TRY(const std::optional<std::string_view> salt, request.find_string("cache_salt"));
  if (salt && salt->size() > kMaxCacheSaltBytes) {
    return request.wrong("cache_salt",
                         fmt::format("{} bytes, at most {} are allowed", salt->size(), kMaxCacheSaltBytes));
  }
  return std::string(salt.value_or(""));
}

// Only a hint for routing. The worker refuses invalid values of these fields.
std::string read_session(const JsonObject& request) {
  for (const std::string_view field : {"prompt_cache_key", "user"}) {
    const std::optional<JsonValue> value = request.peek(field);
    const std::string_view text = value ? value->if_string().value_or("") : "";
    if (!text.empty()) return std::string(text);
  }
  return {};
}

Result<std::vector<TokenId>> read_tokens(const JsonArray& array) {
  std::vector<TokenId> tokens;
  tokens.reserve(array.size());
  for (const JsonValue item : array) {
    KVIST_TRY(const TokenId token, read_token(item));
    tokens.push_back(token);
  }
  return tokens;
}

// For routing: how many answers a request has; what is no such number counts as one.
std::uint32_t count_of(const JsonObject& request, std::string_view field) {
  const std::optional<JsonValue> value = request.peek(field);
  const std::int64_t count = value ? value->if_int().value_or(1) : 1;
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(count, 1, kMaxChoices));
}

// For routing: what is no priority counts as none. Some workers take a text or a fraction for one too, and of two
// fields the last.
void read_priority(const JsonObject& request, GenerationOptions& options) {
  const auto value = request.find("priority");
  if (value && !*value) return;
  const std::optional<std::int64_t> number = value ? (*value)->if_int() : std::nullopt;
  options.priority_is_odd = !number || !std::in_range<std::int32_t>(*number);
  if (!options.priority_is_odd) options.priority = static_cast<std::int32_t>(*number);
}

// n, best_of and echo.
Result<void> read_choices(const JsonObject& request, RequestKind kind, GenerationOptions& options) {
  KVIST_TRY(const std::optional<std::int64_t> choices, request.find_int("n", 1, kMaxChoices));
  options.choices = options.best_of = static_cast<std::uint32_t>(choices.value_or(1));
  if (kind == RequestKind::kChat) return {};
  KVIST_TRY(options.echo, request.bool_or("echo", false));
  KVIST_TRY(const std::optional<std::int64_t> best_of, request.find_int("best_of", 1, kMaxChoices));
  if (!best_of) return {};
  options.best_of = static_cast<std::uint32_t>(*best_of);
  if (options.best_of < options.choices)
    return request.wrong("best_of", fmt::format("expected at least n, which is {}, got {}", options.choices, *best_of));
  if (options.stream && options.best_of > options.choices)
    return request.wrong("best_of", "the best answers are known when all have ended, so they cannot be streamed");
  return {};
}

// An answer that another worker began.
Result<std::optional<Resumption>> read_resumption(const JsonObject& request) {
  // null too is a member of that name, and a gateway that adds its own would make two of it.
  KVIST_TRY(const std::optional<JsonObject> from, request.find_object("kvist_resume"));
  if (!from && request.has("kvist_resume"))
    return request.wrong("kvist_resume", "expected an object, got null; leave it out");
  if (!from) return std::optional<Resumption>();
  Resumption resumption;
  KVIST_TRY(const std::uint64_t created,
            from->require_unsigned("created", 0, static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max())));
  resumption.created = static_cast<std::int64_t>(created);
  KVIST_TRY(const JsonArray tokens, from->require_array("token_ids", "an array of token ids"));
  if (tokens.empty()) return tokens.value().wrong("expected at least one token, got none");
  if (tokens.size() > kMaxResumedTokens)
    return tokens.value().wrong(fmt::format("more than {} tokens", kMaxResumedTokens));
  KVIST_TRY(resumption.tokens, read_tokens(tokens));
  return std::optional(std::move(resumption));
}

Result<GenerationOptions> read_options(const JsonObject& request, RequestKind kind, ReadFor purpose) {
  GenerationOptions options;
  KVIST_TRY(const std::optional<std::string_view> model, request.find_string("model"));
  // A server of one model may accept requests without a name, so for routing the name may be missing.
  if (!model && purpose == ReadFor::kAnswer) return request.wrong("model", "required, but missing");
  options.model = model.value_or("");
  KVIST_TRY(const std::optional<bool> stream, request.find_bool("stream"));
  options.stream = stream.value_or(false);
  KVIST_TRY_VOID(read_stream_options(request, options));
  KVIST_TRY(options.cache_salt, read_cache_salt(request));
  KVIST_TRY(options.prompt, read_prompt_options(request, kind, purpose));
  if (purpose == ReadFor::kRouting) {
    options.session = read_session(request);
    options.computes_whole_prompt = computes_whole_prompt(request, kind);
    read_priority(request, options);
    options.choices = count_of(request, "n");
    options.best_of = std::max(options.choices, count_of(request, "best_of"));
    return options;
  }
  KVIST_TRY_VOID(read_choices(request, kind, options));
  // An echo alone has no answer.
  KVIST_TRY(const std::optional<std::uint32_t> max_tokens,
            read_token_limit(request, "max_tokens", options.echo ? 0 : 1));
  KVIST_TRY(const std::optional<std::uint32_t> max_completion_tokens,
            read_token_limit(request, "max_completion_tokens", options.echo ? 0 : 1));
  options.max_tokens = max_completion_tokens ? max_completion_tokens : max_tokens;
  if (!options.max_tokens && kind == RequestKind::kCompletion) options.max_tokens = kDefaultCompletionTokens;
  KVIST_TRY(options.seed, read_seed(request));
  KVIST_TRY(const std::optional<bool> ignore_eos, request.find_bool("ignore_eos"));
  options.ignore_eos = ignore_eos.value_or(false);
  KVIST_TRY(options.stop, read_stop(request));
  KVIST_TRY(const std::optional<bool> include_stop, request.find_bool("include_stop_str_in_output"));
  options.include_stop_str_in_output = include_stop.value_or(false);
  KVIST_TRY(options.skip_special_tokens, request.bool_or("skip_special_tokens", true));
  KVIST_TRY(
      const std::optional<std::int64_t> priority,
      request.find_int("priority", std::numeric_limits<std::int32_t>::min(), std::numeric_limits<std::int32_t>::max()));
  options.priority = static_cast<std::int32_t>(priority.value_or(0));
  KVIST_TRY(const std::optional<bool> return_token_ids, request.find_bool("return_token_ids"));
  options.return_token_ids = return_token_ids.value_or(false);
  KVIST_TRY(options.sampling, read_sampling(request, kind));
  if (options.stream && options.sampling.prompt_logprobs)
    return request.wrong("prompt_logprobs", "only a whole answer has them; \"stream\" is true");
  KVIST_TRY(options.resumption, read_resumption(request));
  if (options.resumption && !options.stream)
    return request.wrong("kvist_resume", "only a stream can be resumed; \"stream\" is not true");
  return options;
}

Result<void> check_engine_message(const JsonObject& message, std::string_view role) {
  if (std::ranges::find(kRoles, role) == kRoles.end()) {
    return message.wrong("role", fmt::format("expected one of {}, got \"{}\"", fmt::join(kRoles, ", "), role));
  }
  KVIST_TRY(const std::optional<JsonValue> call, message.find("function_call"));
  if (!call) return {};
  return call->unsupported("not supported by this server; give tool_calls in its place");
}

Result<text::ChatMessage> read_message(const JsonValue& value, ReadFor purpose) {
  KVIST_TRY(const JsonObject message, value.as_object());
  KVIST_TRY(const std::string_view role, message.require_string("role"));
  if (purpose == ReadFor::kAnswer) KVIST_TRY_VOID(check_engine_message(message, role));
  text::ChatMessage read{.role = std::string(role), .content = {}};
  KVIST_TRY_VOID(read_content(message, role, purpose, read));
  read_reasoning(message, read);
  KVIST_TRY_VOID(read_tool_fields(message, purpose, read));
  return read;
}

Result<std::vector<text::ChatMessage>> read_messages(const JsonArray& array, ReadFor purpose) {
  std::vector<text::ChatMessage> messages;
  for (const JsonValue item : array) {
    KVIST_TRY(text::ChatMessage message, read_message(item, purpose));
    messages.push_back(std::move(message));
  }
  if (messages.empty()) return array.value().wrong("expected at least one message, got none");
  return messages;
}

Result<Prompt> read_prompt(const JsonValue& value) {
  // Made in place, because GCC 12 with sanitizers gives a false warning about a temporary variant.
  if (const std::optional<std::string_view> text = value.if_string())
    return Result<Prompt>(std::in_place, std::in_place_type<std::string>, *text);
  KVIST_TRY(const JsonArray array, value.as_array("a string or an array of token ids"));
  KVIST_TRY(std::vector<TokenId> tokens, read_tokens(array));
  return Result<Prompt>(std::in_place, std::move(tokens));
}

// A string, an array of strings, an array of token ids, or an array of arrays of token ids.
Result<std::vector<Prompt>> read_prompts(const JsonValue& value) {
  std::vector<Prompt> prompts;
  const std::optional<JsonArray> array = value.if_array();
  if (array && array->empty()) return value.wrong("expected at least one prompt or token, got an empty array");
  if (!array || (*array->begin()).kind() == JsonKind::kNumber) {
    if (!array && !value.if_string())
      return value.expected("a string, an array of strings, token ids, or an array of those");
    KVIST_TRY(Prompt prompt, read_prompt(value));
    prompts.push_back(std::move(prompt));
    return prompts;
  }
  for (const JsonValue item : *array) {
    if (prompts.size() == kMaxPrompts) {
      return value.wrong(fmt::format("more than {} prompts in one request", kMaxPrompts));
    }
    KVIST_TRY(Prompt prompt, read_prompt(item));
    prompts.push_back(std::move(prompt));
  }
  return prompts;
}

}  // namespace

Result<ChatRequest> parse_chat_request(std::string_view body, ReadFor purpose) {
  JsonBody json;
  KVIST_TRY(const JsonObject request, json.parse(body));
  ChatRequest chat;
  KVIST_TRY(chat.options, read_options(request, RequestKind::kChat, purpose));
  KVIST_TRY(const JsonArray messages, request.require_array("messages", "an array of messages"));
  KVIST_TRY(chat.messages, read_messages(messages, purpose));
  KVIST_TRY_VOID(read_prompt_fields(request, purpose, chat));
  if (purpose == ReadFor::kRouting) return chat;
  KVIST_TRY_VOID(read_tool_choice(request, chat));
  KVIST_TRY_VOID(refuse_unsupported(request, RequestKind::kChat));
  return chat;
}

Result<CompletionRequest> parse_completion_request(std::string_view body, ReadFor purpose) {
  JsonBody json;
  KVIST_TRY(const JsonObject request, json.parse(body));
  CompletionRequest completion;
  KVIST_TRY(completion.options, read_options(request, RequestKind::kCompletion, purpose));
  KVIST_TRY(const JsonValue prompt, request.require("prompt"));
  KVIST_TRY(completion.prompts, read_prompts(prompt));
  if (purpose == ReadFor::kAnswer) KVIST_TRY_VOID(refuse_unsupported(request, RequestKind::kCompletion));
  return completion;
}

Result<TokenizeRequest> parse_tokenize_request(std::string_view body) {
  JsonBody json;
  KVIST_TRY(const JsonObject request, json.parse(body));
  KVIST_TRY(const std::optional<std::string_view> model, request.find_string("model"));
  KVIST_TRY(const std::optional<JsonArray> messages, request.find_array("messages", "an array of messages"));
  KVIST_TRY(const std::optional<std::string_view> prompt, request.find_string("prompt"));
  if (messages.has_value() == prompt.has_value())
    return fail(ErrorCode::kInvalidArgument, "body: expected either \"prompt\" or \"messages\"");
  TokenizeRequest tokenize{.model = std::string(model.value_or("")), .input = std::string(prompt.value_or(""))};
  KVIST_TRY(tokenize.add_special_tokens, request.find_bool("add_special_tokens"));
  KVIST_TRY(const std::optional<bool> spellings, request.find_bool("return_token_strs"));
  tokenize.return_token_strs = spellings.value_or(false);
  if (messages) {
    ChatPrompt& chat = tokenize.input.emplace<ChatPrompt>();
    KVIST_TRY(chat.messages, read_messages(*messages, ReadFor::kAnswer));
    KVIST_TRY_VOID(read_prompt_fields(request, ReadFor::kAnswer, chat));
  }
  return tokenize;
}

Result<DetokenizeRequest> parse_detokenize_request(std::string_view body) {
  JsonBody json;
  KVIST_TRY(const JsonObject request, json.parse(body));
  KVIST_TRY(const std::optional<std::string_view> model, request.find_string("model"));
  KVIST_TRY(const JsonArray tokens, request.require_array("tokens", "an array of token ids"));
  KVIST_TRY(std::vector<TokenId> ids, read_tokens(tokens));
  return DetokenizeRequest{.model = std::string(model.value_or("")), .tokens = std::move(ids)};
}

}  // namespace kvist::openai

#include "kvist/openai/sampling_fields.h"

#include <fmt/format.h>

#include <charconv>
#include <limits>

namespace kvist::openai {
namespace {

constexpr std::int64_t kMostInteger = std::numeric_limits<std::int32_t>::max();

Result<void> read_number(const JsonObject& request, std::string_view field, double low, double high, double& out) {
  KVIST_TRY(const std::optional<double> number, request.find_double(field, low, high));
  if (number) out = *number;
  return {};
}

// -1 and 0 both stand for all tokens.
Result<std::uint32_t> read_top_k(const JsonObject& request) {
  KVIST_TRY(const std::optional<std::int64_t> top_k, request.find_int("top_k", -1, kMostInteger));
  return static_cast<std::uint32_t>(std::max<std::int64_t>(0, top_k.value_or(0)));
}

// An object of token ids, written as strings, and numbers.
Result<std::vector<std::pair<TokenId, double>>> read_logit_bias(const JsonObject& request) {
  std::vector<std::pair<TokenId, double>> biases;
  KVIST_TRY(const std::optional<JsonValue> value, request.find("logit_bias"));
  if (!value) return biases;
  const std::optional<JsonObject> object = value->if_object();
  if (!object) return value->expected("an object of token ids and numbers");
  for (const auto [key, bias_value] : *object) {
    if (biases.size() == kMaxLogitBiases) return value->wrong(fmt::format("more than {} tokens", kMaxLogitBiases));
    std::uint32_t token = 0;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), token);
    if (error != std::errc() || end != key.data() + key.size())
      return bias_value.wrong("expected a token id as the name");
    KVIST_TRY(const double bias, bias_value.as_double(-100, 100));
    biases.emplace_back(TokenId(token), bias);
  }
  return biases;
}

Result<std::vector<TokenId>> read_stop_tokens(const JsonObject& request) {
  std::vector<TokenId> tokens;
  KVIST_TRY(const std::optional<JsonArray> array, request.find_array("stop_token_ids", "an array of token ids"));
  if (!array) return tokens;
  for (const JsonValue item : *array) {
    if (tokens.size() == kMaxLogitBiases) return item.wrong(fmt::format("more than {} tokens", kMaxLogitBiases));
    KVIST_TRY(const TokenId token, read_token(item));
    tokens.push_back(token);
  }
  return tokens;
}

// A chat asks with `logprobs: true` and `top_logprobs: N`, a completion with `logprobs: N`.
Result<std::optional<std::uint32_t>> read_logprobs(const JsonObject& request, RequestKind kind) {
  std::optional<std::uint32_t> wanted;
  if (kind == RequestKind::kCompletion) {
    KVIST_TRY(const std::optional<std::int64_t> count, request.find_int("logprobs", 0, kMaxLogprobs));
    if (count) wanted = static_cast<std::uint32_t>(*count);
    return wanted;
  }
  KVIST_TRY(const std::optional<bool> asked, request.find_bool("logprobs"));
  KVIST_TRY(const std::optional<std::int64_t> count, request.find_int("top_logprobs", 0, kMaxLogprobs));
  if (asked.value_or(false)) wanted = static_cast<std::uint32_t>(count.value_or(0));
  if (!wanted && count.value_or(0) > 0)
    return fail(ErrorCode::kInvalidArgument, "top_logprobs: needs \"logprobs\": true beside it");
  return wanted;
}

}  // namespace

Result<TokenId> read_token(const JsonValue& value) {
  const std::optional<std::uint64_t> id = value.if_unsigned();
  if (!id || *id > std::numeric_limits<std::uint32_t>::max()) return value.expected("a token id");
  return TokenId(static_cast<std::uint32_t>(*id));
}

Result<Sampling> read_sampling(const JsonObject& request, RequestKind kind) {
  Sampling sampling;
  KVIST_TRY_VOID(read_number(request, "temperature", 0, 2, sampling.temperature));
  KVIST_TRY_VOID(read_number(request, "top_p", 0, 1, sampling.top_p));
  KVIST_TRY_VOID(read_number(request, "min_p", 0, 1, sampling.min_p));
  KVIST_TRY_VOID(read_number(request, "presence_penalty", -2, 2, sampling.presence_penalty));
  KVIST_TRY_VOID(read_number(request, "frequency_penalty", -2, 2, sampling.frequency_penalty));
  KVIST_TRY_VOID(read_number(request, "repetition_penalty", 0.01, 100, sampling.repetition_penalty));
  double length_penalty =
      1;  // for beam search, which no engine here has: checked, and without effect, as with one beam
  KVIST_TRY_VOID(read_number(request, "length_penalty", -100, 100, length_penalty));
  KVIST_TRY(sampling.top_k, read_top_k(request));
  KVIST_TRY(sampling.logit_bias, read_logit_bias(request));
  KVIST_TRY(sampling.stop_token_ids, read_stop_tokens(request));
  KVIST_TRY(const std::optional<std::int64_t> min_tokens, request.find_int("min_tokens", 0, kMostInteger));
  sampling.min_tokens = static_cast<std::uint32_t>(min_tokens.value_or(0));
  KVIST_TRY(sampling.logprobs, read_logprobs(request, kind));
  KVIST_TRY(const std::optional<std::int64_t> of_prompt, request.find_int("prompt_logprobs", 0, kMaxLogprobs));
  if (of_prompt) sampling.prompt_logprobs = static_cast<std::uint32_t>(*of_prompt);
  return sampling;
}

Result<std::vector<std::string>> read_stop(const JsonObject& request) {
  std::vector<std::string> stop;
  KVIST_TRY(const std::optional<JsonValue> value, request.find("stop"));
  if (!value) return stop;
  const auto add = [&](const JsonValue& item) -> Result<void> {
    KVIST_TRY(const std::string_view text, item.as_string());
    if (text.empty()) return {};
    if (text.size() > kMaxStopBytes)
      return item.wrong(fmt::format("{} bytes, at most {} are allowed", text.size(), kMaxStopBytes));
    stop.emplace_back(text);
    return {};
  };
  const std::optional<JsonArray> array = value->if_array();
  if (!array) {
    KVIST_TRY_VOID(add(*value));
    return stop;
  }
  if (array->size() > kMaxStopStrings)
    return value->wrong(fmt::format("{} strings, at most {} are allowed", array->size(), kMaxStopStrings));
  for (const JsonValue item : *array) KVIST_TRY_VOID(add(item));
  return stop;
}

}  // namespace kvist::openai

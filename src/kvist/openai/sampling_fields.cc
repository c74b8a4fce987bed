#include "kvist/openai/sampling_fields.h"

#include <fmt/format.h>

#include <charconv>
#include <limits>

namespace kvist::openai {
namespace {

constexpr std::int64_t kMostInteger = std::numeric_limits<std::int32_t>::max();

Result<void> read_number(const JsonObject& request, std::string_view field, double low, double high, double& out) {
  KVIST_TRY(const std::optional<double> number, request.find_number(field, low, high));
  if (number) out = *number;
  return {};
}

// -1 and 0 both stand for all tokens.
Result<std::uint32_t> read_top_k(const JsonObject& request) {
  KVIST_TRY(const std::optional<std::int64_t> top_k, request.find_integer("top_k", -1, kMostInteger));
  return static_cast<std::uint32_t>(std::max<std::int64_t>(0, top_k.value_or(0)));
}

// An object of token ids, written as strings, and numbers.
Result<std::vector<std::pair<TokenId, double>>> read_logit_bias(const JsonObject& request) {
  std::vector<std::pair<TokenId, double>> biases;
  KVIST_TRY(const std::optional<JsonElement> element, request.find("logit_bias"));
  if (!element) return biases;
  simdjson::dom::object object;
  if (element->get(object) != simdjson::SUCCESS)
    return unexpected_value("logit_bias", "an object of token ids and numbers", *element);
  for (const simdjson::dom::key_value_pair entry : object) {
    const std::string path = fmt::format("logit_bias.{}", entry.key);
    if (biases.size() == kMaxLogitBiases)
      return fail(ErrorCode::kInvalidArgument, fmt::format("logit_bias: more than {} tokens", kMaxLogitBiases));
    std::uint32_t token = 0;
    const auto [end, error] = std::from_chars(entry.key.data(), entry.key.data() + entry.key.size(), token);
    if (error != std::errc() || end != entry.key.data() + entry.key.size())
      return fail(ErrorCode::kInvalidArgument, fmt::format("{}: expected a token id as the name", path));
    double bias = 0;
    if (entry.value.get(bias) != simdjson::SUCCESS || !(bias >= -100 && bias <= 100))
      return unexpected_value(path, "a number from -100 to 100", entry.value);
    biases.emplace_back(TokenId(token), bias);
  }
  return biases;
}

Result<std::vector<TokenId>> read_stop_tokens(const JsonObject& request) {
  std::vector<TokenId> tokens;
  KVIST_TRY(const std::optional<JsonElement> element, request.find("stop_token_ids"));
  if (!element) return tokens;
  simdjson::dom::array array;
  if (element->get(array) != simdjson::SUCCESS)
    return unexpected_value("stop_token_ids", "an array of token ids", *element);
  for (const JsonElement item : array) {
    const std::string path = fmt::format("stop_token_ids[{}]", tokens.size());
    if (tokens.size() == kMaxLogitBiases)
      return fail(ErrorCode::kInvalidArgument, fmt::format("{}: more than {} tokens", path, kMaxLogitBiases));
    std::uint64_t id = 0;
    if (item.get(id) != simdjson::SUCCESS || id > std::numeric_limits<std::uint32_t>::max())
      return unexpected_value(path, "a token id", item);
    tokens.emplace_back(static_cast<std::uint32_t>(id));
  }
  return tokens;
}

// A chat asks with `logprobs: true` and `top_logprobs: N`, a completion with `logprobs: N`.
Result<std::optional<std::uint32_t>> read_logprobs(const JsonObject& request, RequestKind kind) {
  std::optional<std::uint32_t> wanted;
  if (kind == RequestKind::kCompletion) {
    KVIST_TRY(const std::optional<std::int64_t> count, request.find_integer("logprobs", 0, kMaxLogprobs));
    if (count) wanted = static_cast<std::uint32_t>(*count);
    return wanted;
  }
  KVIST_TRY(const std::optional<bool> asked, request.find_bool("logprobs"));
  KVIST_TRY(const std::optional<std::int64_t> count, request.find_integer("top_logprobs", 0, kMaxLogprobs));
  if (asked.value_or(false)) wanted = static_cast<std::uint32_t>(count.value_or(0));
  if (!wanted && count.value_or(0) > 0)
    return fail(ErrorCode::kInvalidArgument, "top_logprobs: needs \"logprobs\": true beside it");
  return wanted;
}

}  // namespace

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
  KVIST_TRY(const std::optional<std::int64_t> min_tokens, request.find_integer("min_tokens", 0, kMostInteger));
  sampling.min_tokens = static_cast<std::uint32_t>(min_tokens.value_or(0));
  KVIST_TRY(sampling.logprobs, read_logprobs(request, kind));
  return sampling;
}

Result<std::vector<std::string>> read_stop(const JsonObject& request) {
  std::vector<std::string> stop;
  KVIST_TRY(const std::optional<JsonElement> element, request.find("stop"));
  if (!element) return stop;
  const auto add = [&](JsonElement item, const std::string& path) -> Result<void> {
    std::string_view text;
    if (item.get(text) != simdjson::SUCCESS) return unexpected_value(path, "a string", item);
    if (text.empty()) return {};
    if (text.size() > kMaxStopBytes)
      return fail(ErrorCode::kInvalidArgument,
                  fmt::format("{}: {} bytes, at most {} are allowed", path, text.size(), kMaxStopBytes));
    stop.emplace_back(text);
    return {};
  };
  simdjson::dom::array array;
  if (element->get(array) != simdjson::SUCCESS) {
    KVIST_TRY_VOID(add(*element, "stop"));
    return stop;
  }
  if (array.size() > kMaxStopStrings)
    return fail(ErrorCode::kInvalidArgument,
                fmt::format("stop: {} strings, at most {} are allowed", array.size(), kMaxStopStrings));
  for (const JsonElement item : array) KVIST_TRY_VOID(add(item, fmt::format("stop[{}]", stop.size())));
  return stop;
}

}  // namespace kvist::openai

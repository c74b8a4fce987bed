// Maps each Error to an HTTP status and a JSON body.
#pragma once

#include <string>
#include <string_view>

#include "kvist/base/error.h"

namespace kvist::openai {

/// kInvalidArgument 400, kUnauthenticated 401, kNotFound 404, kTooLarge 413, kUnsupported 422, kResourceExhausted 429,
/// kUnavailable 503, kDeadlineExceeded 504, kCancelled 499, kCorrupt 502, kInternal 500.
[[nodiscard]] int http_status(ErrorCode code);
/// What the message of an error about a too long prompt begins with. Clients that shorten their prompts look for it.
inline constexpr std::string_view kContextLengthMessage = "This model's maximum context length is ";
/// {"error":{"message","type","param","code"}} as in vLLM, where the code is the HTTP status. An error about a too long
/// prompt has OpenAI's code for it, "context_length_exceeded".
[[nodiscard]] std::string error_body(const Error& error);
/// What OpenAI answers (with status 404) where a model does not exist: its code is "model_not_found".
[[nodiscard]] std::string model_not_found_body(std::string_view message);
/// What OpenAI answers (with status 401) to a request with a key that is not known, or without one: its code is
/// "invalid_api_key".
[[nodiscard]] std::string unknown_key_body(bool has_key);
/// The body from its parts, with a code that is a word; `param` is null.
[[nodiscard]] std::string coded_error_body(std::string_view message, std::string_view type, std::string_view code);
/// The body from its parts; an empty `param` is null.
[[nodiscard]] std::string error_body(std::string_view message, std::string_view type, std::string_view param,
                                     int status);

}  // namespace kvist::openai

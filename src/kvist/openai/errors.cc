#include "kvist/openai/errors.h"

#include <string_view>

#include "kvist/base/json_writer.h"

namespace kvist::openai {
namespace {

// vLLM's names, or names of the same form for errors that vLLM does not have.
std::string_view error_type(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kTooLarge:
    case ErrorCode::kUnsupported:
      return "BadRequestError";
    case ErrorCode::kUnauthenticated:
      return "AuthenticationError";
    case ErrorCode::kNotFound:
      return "NotFoundError";
    case ErrorCode::kResourceExhausted:
      return "RateLimitError";
    case ErrorCode::kUnavailable:
      return "ServiceUnavailableError";
    case ErrorCode::kDeadlineExceeded:
      return "GatewayTimeoutError";
    case ErrorCode::kCancelled:
      return "CancelledError";
    case ErrorCode::kCorrupt:
      return "BadGatewayError";
    case ErrorCode::kInternal:
      return "InternalServerError";
  }
  return "InternalServerError";
}

bool is_path_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '[' || c == ']';
}

// Messages about a field begin with its path: "messages[2].content: expected ...". Empty if this one does not.
std::string_view field_of(const Error& error) {
  if (error.code != ErrorCode::kInvalidArgument && error.code != ErrorCode::kUnsupported &&
      error.code != ErrorCode::kNotFound)
    return {};
  const std::string_view message = error.message;
  std::size_t end = 0;
  while (end < message.size() && is_path_character(message[end])) ++end;
  if (end == 0 || !message.substr(end).starts_with(": ") || message.substr(0, end) == "body") return {};
  return message.substr(0, end);
}

}  // namespace

int http_status(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return 400;
    case ErrorCode::kUnauthenticated:
      return 401;
    case ErrorCode::kNotFound:
      return 404;
    case ErrorCode::kTooLarge:
      return 413;
    case ErrorCode::kUnsupported:
      return 422;
    case ErrorCode::kResourceExhausted:
      return 429;
    case ErrorCode::kCancelled:
      return 499;
    case ErrorCode::kInternal:
      return 500;
    case ErrorCode::kCorrupt:
      return 502;
    case ErrorCode::kUnavailable:
      return 503;
    case ErrorCode::kDeadlineExceeded:
      return 504;
  }
  return 500;
}

std::string error_body(const Error& error) {
  if (error.message.starts_with(kContextLengthMessage))
    return coded_error_body(error.message, "invalid_request_error", "context_length_exceeded");
  return error_body(error.message, error_type(error.code), field_of(error), http_status(error.code));
}

std::string model_not_found_body(std::string_view message) {
  JsonWriter json;
  json.begin_object().key("error").begin_object().field("message", message);
  json.field("type", "invalid_request_error").field("param", "model").field("code", "model_not_found");
  json.end_object().end_object();
  return json.take();
}

std::string unknown_key_body(bool has_key) {
  return coded_error_body(has_key ? "Incorrect API key provided."
                                  : "You didn't provide an API key. It is expected as Authorization: Bearer KEY.",
                          "invalid_request_error", "invalid_api_key");
}

std::string coded_error_body(std::string_view message, std::string_view type, std::string_view code) {
  JsonWriter json;
  json.begin_object().key("error").begin_object().field("message", message).field("type", type);
  json.key("param").null().field("code", code).end_object().end_object();
  return json.take();
}

std::string error_body(std::string_view message, std::string_view type, std::string_view param, int status) {
  JsonWriter json;
  json.begin_object().key("error").begin_object().field("message", message).field("type", type).key("param");
  if (param.empty()) {
    json.null();
  } else {
    json.value(param);
  }
  json.field("code", status).end_object().end_object();
  return json.take();
}

}  // namespace kvist::openai

#include "kvist/openai/errors.h"

#include <string_view>

#include "kvist/base/json_writer.h"

namespace kvist::openai {
namespace {

std::string_view error_type(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kTooLarge:
    case ErrorCode::kUnsupported:
      return "invalid_request_error";
    case ErrorCode::kUnauthenticated:
      return "authentication_error";
    case ErrorCode::kNotFound:
      return "not_found_error";
    case ErrorCode::kResourceExhausted:
      return "rate_limit_error";
    case ErrorCode::kUnavailable:
      return "service_unavailable_error";
    case ErrorCode::kDeadlineExceeded:
      return "timeout_error";
    case ErrorCode::kCancelled:
      return "cancelled_error";
    case ErrorCode::kCorrupt:
      return "bad_gateway_error";
    case ErrorCode::kInternal:
      return "internal_error";
  }
  return "internal_error";
}

bool is_path_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '[' || c == ']';
}

// Messages about a field begin with its path: "messages[2].content: expected ...". Empty where this one does not.
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
  JsonWriter json;
  json.begin_object().key("error").begin_object();
  json.field("message", error.message).field("type", error_type(error.code));
  const std::string_view field = field_of(error);
  json.key("param");
  if (field.empty()) {
    json.null();
  } else {
    json.value(field);
  }
  json.field("code", to_string(error.code)).end_object().end_object();
  return json.take();
}

}  // namespace kvist::openai

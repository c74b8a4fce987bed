#include "kvist/kubernetes/api_error.h"

#include <fmt/format.h>

#include <charconv>
#include <utility>

namespace kvist::kubernetes {
namespace {

/// Longer ones are cut: a message goes into logs.
constexpr std::size_t kMostMessageBytes = 1'024;
constexpr std::size_t kMostConflicts = 64;
constexpr std::int64_t kMostRetrySeconds = 3'600;

ApiErrorKind kind_of(int status) {
  constexpr int kFirstServerError = 500;
  switch (status) {
    case 401:
      return ApiErrorKind::kUnauthorized;
    case 403:
      return ApiErrorKind::kForbidden;
    case 404:
      return ApiErrorKind::kNotFound;
    case 409:
      return ApiErrorKind::kConflict;
    case 410:
      return ApiErrorKind::kExpired;
    case 429:
      return ApiErrorKind::kThrottled;
    default:
      return status >= kFirstServerError ? ApiErrorKind::kServerError : ApiErrorKind::kInvalid;
  }
}

std::string cut(std::string_view text) {
  return std::string(text.substr(0, kMostMessageBytes));
}

std::string text_of(const JsonObject& object, std::string_view name) {
  const auto value = object.peek(name);
  const auto text = value ? value->if_string() : std::nullopt;
  return text ? cut(*text) : std::string();
}

std::optional<std::int64_t> number_of(const JsonObject& object, std::string_view name) {
  const auto value = object.peek(name);
  return value ? value->if_int() : std::nullopt;
}

std::optional<Duration> seconds(std::int64_t count) {
  if (count <= 0 || count > kMostRetrySeconds) return std::nullopt;
  return std::chrono::seconds(count);
}

void read_details(const JsonObject& details, ApiError& error) {
  if (const auto retry = number_of(details, "retryAfterSeconds")) error.retry_after = seconds(*retry);
  const auto causes = details.peek("causes");
  const auto list = causes ? causes->if_array() : std::nullopt;
  if (!list) return;
  for (const JsonValue cause : *list) {
    const auto object = cause.if_object();
    if (!object || text_of(*object, "reason") != "FieldManagerConflict") continue;
    if (error.conflicts.size() == kMostConflicts) return;
    error.conflicts.push_back({.field = text_of(*object, "field"), .message = text_of(*object, "message")});
  }
}

}  // namespace

std::string_view to_string(ApiErrorKind kind) {
  switch (kind) {
    case ApiErrorKind::kUnreachable:
      return "unreachable";
    case ApiErrorKind::kUnauthorized:
      return "unauthorized";
    case ApiErrorKind::kForbidden:
      return "forbidden";
    case ApiErrorKind::kNotFound:
      return "not_found";
    case ApiErrorKind::kConflict:
      return "conflict";
    case ApiErrorKind::kFieldManagerConflict:
      return "field_manager_conflict";
    case ApiErrorKind::kExpired:
      return "expired";
    case ApiErrorKind::kInvalid:
      return "invalid";
    case ApiErrorKind::kThrottled:
      return "throttled";
    case ApiErrorKind::kServerError:
      return "server_error";
    case ApiErrorKind::kUnreadable:
      return "unreadable";
  }
  return "unreadable";
}

ApiError read_status(const JsonObject& status, int http_status) {
  constexpr std::int64_t kFirst = 400;
  constexpr std::int64_t kLast = 599;
  ApiError error{.status = http_status, .message = text_of(status, "message")};
  if (const auto code = number_of(status, "code"); code && *code >= kFirst && *code <= kLast)
    error.status = static_cast<int>(*code);
  error.kind = kind_of(error.status);
  if (const auto details = status.peek("details"))
    if (const auto object = details->if_object()) read_details(*object, error);
  if (error.kind == ApiErrorKind::kConflict && !error.conflicts.empty())
    error.kind = ApiErrorKind::kFieldManagerConflict;
  if (error.message.empty()) error.message = text_of(status, "reason");
  return error;
}

ApiError error_of(const net::HttpResponse& answer) {
  JsonDocument document;
  const auto object = document.parse_object(answer.body);
  ApiError error =
      object ? read_status(*object, answer.status) : ApiError{.kind = kind_of(answer.status), .status = answer.status};
  if (error.message.empty()) error.message = in_quotes(answer.body);
  if (error.retry_after) return error;
  if (const auto field = answer.headers.find("Retry-After")) {
    std::int64_t count = 0;
    const auto [end, problem] = std::from_chars(field->data(), field->data() + field->size(), count);
    if (problem == std::errc() && end == field->data() + field->size()) error.retry_after = seconds(count);
  }
  return error;
}

ApiError unreachable(const Error& error) {
  return {.kind = ApiErrorKind::kUnreachable, .message = error.message};
}

ApiError unreadable(const Error& error) {
  return {.kind = ApiErrorKind::kUnreadable, .message = error.message};
}

Error to_error(const ApiError& error) {
  std::string message = fmt::format("the API server: {}", to_string(error.kind));
  if (error.status != 0) message += fmt::format(" ({})", error.status);
  message += ": " + error.message;
  for (const FieldConflict& conflict : error.conflicts)
    message += fmt::format("; {}: {}", conflict.field, conflict.message);
  switch (error.kind) {
    case ApiErrorKind::kUnauthorized:
    case ApiErrorKind::kForbidden:
      return {ErrorCode::kUnauthenticated, std::move(message)};
    case ApiErrorKind::kNotFound:
      return {ErrorCode::kNotFound, std::move(message)};
    case ApiErrorKind::kConflict:
    case ApiErrorKind::kFieldManagerConflict:
    case ApiErrorKind::kInvalid:
      return {ErrorCode::kInvalidArgument, std::move(message)};
    case ApiErrorKind::kThrottled:
      return {ErrorCode::kResourceExhausted, std::move(message)};
    case ApiErrorKind::kUnreadable:
      return {ErrorCode::kCorrupt, std::move(message)};
    case ApiErrorKind::kUnreachable:
    case ApiErrorKind::kExpired:
    case ApiErrorKind::kServerError:
      return {ErrorCode::kUnavailable, std::move(message)};
  }
  return {ErrorCode::kInternal, std::move(message)};
}

}  // namespace kvist::kubernetes

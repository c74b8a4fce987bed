// What the API server says when it refuses, as a type.
#pragma once

#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/json.h"
#include "kvist/base/time.h"
#include "kvist/net/http_types.h"

namespace kvist::kubernetes {

enum class ApiErrorKind : std::uint8_t {
  kUnreachable,           ///< no answer: connection, TLS, deadline
  kUnauthorized,          ///< 401: who asks is not known
  kForbidden,             ///< 403: who asks is known and may not
  kNotFound,              ///< 404
  kConflict,              ///< 409: the object has changed meanwhile, or exists
  kFieldManagerConflict,  ///< 409 of an apply: another manager owns fields that it would change
  kExpired,               ///< 410: the resource version, or the continue token, is too old
  kInvalid,               ///< any other 4xx: the request is wrong
  kThrottled,             ///< 429: later
  kServerError,           ///< 5xx
  kUnreadable,            ///< the answer is none of an API server
};
/// "unreachable", "unauthorized", ...
[[nodiscard]] std::string_view to_string(ApiErrorKind kind);

/// A field that an apply would take from its owner.
struct FieldConflict {
  std::string field;    ///< ".spec.replicas"
  std::string message;  ///< names the owner: conflict with "kubectl"

  bool operator==(const FieldConflict&) const = default;
};

struct ApiError {
  ApiErrorKind kind = ApiErrorKind::kUnreachable;
  int status = 0;                             ///< of HTTP; 0: there was no answer
  std::string message = {};                   ///< the server's words, or what was wrong
  std::optional<Duration> retry_after = {};   ///< that the server named
  std::vector<FieldConflict> conflicts = {};  ///< of kFieldManagerConflict
};

template <class T>
using ApiResult = std::expected<T, ApiError>;

/// The error that a Status object (meta/v1) describes. `http_status`: of the answer that it came in; its own code has
/// precedence, because in a watch an error comes in an answer of 200.
[[nodiscard]] ApiError read_status(const JsonObject& status, int http_status);
/// The error of an answer that is no success. Its body may be a Status or anything else.
[[nodiscard]] ApiError error_of(const net::HttpResponse& answer);
/// No answer came.
[[nodiscard]] ApiError unreachable(const Error& error);
[[nodiscard]] ApiError unreadable(const Error& error);

/// As an error of the rest of kvist. Its message begins with the kind and names conflicting fields and their owners.
[[nodiscard]] Error to_error(const ApiError& error);

}  // namespace kvist::kubernetes

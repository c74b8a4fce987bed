// Expected failures as values: Error, Result<T> and the project's only control-flow macros.
#pragma once

#include <expected>
#include <string>
#include <string_view>
#include <utility>

namespace kvist {

/// What kind of failure this is. Each code maps to exactly one HTTP status, at the edge (openai/errors.h).
enum class ErrorCode {
  kInvalidArgument,    ///< The caller sent something malformed or out of range.
  kUnauthenticated,    ///< Credentials are missing or wrong.
  kNotFound,           ///< A named thing (model, file, worker) does not exist.
  kTooLarge,           ///< Larger than a stated bound allows.
  kUnsupported,        ///< Well formed, but this build or engine does not do it.
  kResourceExhausted,  ///< A bound (slots, queue, blocks) is reached; trying later may help.
  kUnavailable,        ///< A peer cannot be reached or refuses to serve now.
  kDeadlineExceeded,   ///< It took longer than the stated bound.
  kCancelled,          ///< The caller gave up.
  kCorrupt,            ///< Data from a file or a peer breaks its format.
  kInternal,           ///< A fault of kvist or of the operating system.
};

/// Lower-case name of a code, for messages and metrics: "invalid_argument".
[[nodiscard]] std::string_view to_string(ErrorCode code);

/// A failure: its kind and a sentence that says what was wrong, where, and what would be right.
struct Error {
  ErrorCode code = ErrorCode::kInternal;
  std::string message;

  /// The same error with `context` prepended: "context: message".
  [[nodiscard]] Error in(std::string_view context) &&;
};

template <class T>
using Result = std::expected<T, Error>;

/// `return fail(ErrorCode::kNotFound, "...")` in a function that returns Result<T>.
[[nodiscard]] inline std::unexpected<Error> fail(ErrorCode code, std::string message) {
  return std::unexpected(Error{code, std::move(message)});
}

}  // namespace kvist

#define KVIST_TRY_CONCAT_INNER(a, b) a##b
#define KVIST_TRY_CONCAT(a, b) KVIST_TRY_CONCAT_INNER(a, b)

/// KVIST_TRY(auto x, expression): evaluates an expression of type Result<T>; returns its error from the enclosing
/// function, or declares x from its value. KVIST_TRY_VOID(expression): the same for a Result<void>, or where the value
/// is not needed.
// A declaration cannot be in parentheses. NOLINTBEGIN(bugprone-macro-parentheses)
#define KVIST_TRY(declaration, expression)                                                \
  auto KVIST_TRY_CONCAT(kvist_result_, __LINE__) = (expression);                          \
  if (!KVIST_TRY_CONCAT(kvist_result_, __LINE__))                                         \
    return std::unexpected(std::move(KVIST_TRY_CONCAT(kvist_result_, __LINE__)).error()); \
  declaration = std::move(*KVIST_TRY_CONCAT(kvist_result_, __LINE__))
// NOLINTEND(bugprone-macro-parentheses)

#define KVIST_TRY_VOID(expression)                                                        \
  do {                                                                                    \
    auto kvist_void_result = (expression);                                                \
    if (!kvist_void_result) return std::unexpected(std::move(kvist_void_result).error()); \
  } while (false)

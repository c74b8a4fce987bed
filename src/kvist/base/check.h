// Checks of invariants. A broken one is a bug in kvist, so the process stops with context instead of continuing in a
// wrong state.
#pragma once

#include <string>

namespace kvist::detail {
[[noreturn]] void check_failed(const char* file, int line, const char* condition, const std::string& context);
}  // namespace kvist::detail

/// KVIST_CHECK(condition, context): aborts with file, line, the condition and `context` (a std::string expression,
/// evaluated only on failure) if the condition is false. It is not for bad input, which is an Error.
#define KVIST_CHECK(condition, context)                                                    \
  do {                                                                                     \
    if (!(condition)) [[unlikely]]                                                         \
      ::kvist::detail::check_failed(__FILE__, __LINE__, #condition, std::string(context)); \
  } while (false)

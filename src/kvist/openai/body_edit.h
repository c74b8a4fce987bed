// Small looks into a client's JSON text, and changes of a few bytes of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "kvist/base/error.h"

namespace kvist::openai {

/// The text that the body's first `model` is; nothing if it has none, if that is no text, or if the body is no JSON
/// object up to there, or has more fields before it than a request may have. What comes behind is not looked at.
[[nodiscard]] std::optional<std::string> model_of(std::string_view body);

/// Why model_of() found nothing: the body is no JSON object, or its `model` is no text. Nothing if it has none.
[[nodiscard]] std::optional<Error> model_problem(std::string_view body);

/// What a body that was not read says of its `priority`.
struct AskedPriority {
  /// It has none (null counts as none), or one that is a whole number of 32 bits: every reader takes it for the same.
  bool is_plain = true;
  std::int32_t value = 0;  ///< 0 if it has none or if it is not plain
  bool is_known = true;  ///< false: the body has more fields than are looked at, which is as many as a request may have
};
/// A body that is no JSON object has none.
[[nodiscard]] AskedPriority priority_of(std::string_view body);

/// The body with another `model` and every other byte unchanged. Errors: kInvalidArgument if the body is no
/// JSON object, as far as its fields have to be found; what is in them is not checked.
[[nodiscard]] Result<std::string> with_model(std::string_view body, std::string_view model);

/// The body with this `priority`, wherever it has one, otherwise as its first field, and every other byte unchanged.
/// Errors: as above.
[[nodiscard]] Result<std::string> with_priority(std::string_view body, std::int32_t priority);

/// with_usage_requested() (codec.h), but also where the body has `continuous_usage_stats` alone, which that leaves to
/// the client: a key pays for what the usage says.
[[nodiscard]] Result<std::string> with_usage_in_any_case(std::string_view body);

/// Whether a body that was not read asks a worker for a stream.
[[nodiscard]] bool asks_for_stream(std::string_view body);

}  // namespace kvist::openai

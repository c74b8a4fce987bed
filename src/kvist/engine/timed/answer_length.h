// How long the timed engine's answers are.
#pragma once

#include <cstdint>
#include <limits>

#include "kvist/engine/request.h"
#include "kvist/spec/deployment.h"

namespace kvist::engine {

inline constexpr std::uint64_t kEndlessAnswer = std::numeric_limits<std::uint64_t>::max();

/// The number of tokens of the answer to `request`, including the end-of-turn token and before max_tokens cuts it. It
/// depends on the request alone.
[[nodiscard]] std::uint64_t answer_length(const spec::OutputLengthSpec& spec, const Request& request);

}  // namespace kvist::engine

// The two columns of a turn that are not plain numbers or text: its outcome and its token gaps.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "kvist/workload/turn_sample.h"

namespace kvist::results {

/// "succeeded", "failed", "abandoned".
[[nodiscard]] std::string_view outcome_name(workload::TurnOutcome outcome);
[[nodiscard]] std::optional<workload::TurnOutcome> outcome_of_name(std::string_view name);

/// Writes little-endian IEEE 754 binary32, four bytes per gap, on every machine. Replaces the content of `out`.
void encode_gaps(std::span<const float> gaps, std::vector<std::byte>& out);
/// Nothing if the length is not a multiple of four or a value is not finite, because no statistics could be computed of
/// it.
[[nodiscard]] std::optional<std::vector<float>> decode_gaps(std::span<const std::byte> bytes);

}  // namespace kvist::results

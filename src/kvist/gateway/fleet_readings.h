// How the workers of a fleet read prompts.
#pragma once

#include <bitset>
#include <cstdint>

#include "kvist/text/prompt_encoding.h"

namespace kvist::gateway {

/// The readings that occur in a fleet, and what else of its workers a prompt's tokens depend on. A value: prompts are
/// read beside the loop with what was known when they came.
struct FleetReadings {
  /// By PromptReading::number(). None: nothing is known yet, and Hugging Face's is taken for all.
  std::bitset<text::PromptReading::kNumbers> present;
  std::uint32_t max_model_len = 0;  ///< tokens of the workers' context; 0: not known

  /// The one whose names are a request's own: the lowest number.
  [[nodiscard]] text::PromptReading main() const {
    for (std::uint8_t number = 0; number < text::PromptReading::kNumbers; ++number)
      if (present.test(number)) return text::PromptReading::of_number(number);
    return {};
  }
};

}  // namespace kvist::gateway

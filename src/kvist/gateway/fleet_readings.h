// How the workers of a fleet tokenize prompts.
#pragma once

#include <bitset>
#include <cstdint>

#include "kvist/text/prompt_encoding.h"

namespace kvist::gateway {

/// The readings that occur in a fleet, and what else a prompt's tokens depend on. It is a value, so that a prompt that
/// is read on another thread is read with the state at its arrival.
struct FleetReadings {
  /// By PromptReading::number(). If none is set, no worker has answered yet, and all are assumed to read as Hugging
  /// Face's library does.
  std::bitset<text::PromptReading::kNumbers> present;
  std::uint32_t max_model_len = 0;  ///< context length of the workers in tokens; 0: unknown

  /// The reading whose block hashes are a request's main ones (RouteQuery::blocks): the one with the lowest number.
  [[nodiscard]] text::PromptReading main() const {
    for (std::uint8_t number = 0; number < text::PromptReading::kNumbers; ++number)
      if (present.test(number)) return text::PromptReading::of_number(number);
    return {};
  }
};

}  // namespace kvist::gateway

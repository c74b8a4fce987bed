// A prompt's block hashes in one tokenization of its text.
#pragma once

#include <cstdint>

#include "kvist/routing/prefix_use.h"

namespace kvist::routing {

/// The length and the block hashes of a prompt in the tokenization of the workers with this WorkerView::reading.
struct PromptKeys {
  std::uint8_t reading = 0;
  std::uint32_t prompt_tokens = 0;
  BlockKeys blocks = {};
};

}  // namespace kvist::routing

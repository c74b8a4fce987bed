// A prompt's block hashes under one way of making tokens of its text.
#pragma once

#include <cstdint>

#include "kvist/routing/prefix_use.h"

namespace kvist::routing {

/// The length and the block hashes of a prompt as the workers with this WorkerView::reading have them.
struct PromptKeys {
  std::uint8_t reading = 0;
  std::uint32_t prompt_tokens = 0;
  BlockKeys blocks = {};
};

}  // namespace kvist::routing

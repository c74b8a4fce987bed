// A prompt as text, with marks for what came with the messages.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace kvist::tokenizer {

/// The text that a chat template made of a conversation. Special tokens are recognised in what the template wrote,
/// never in what came with the messages, so that no user can inject one.
struct RenderedPrompt {
  /// Bytes [begin, end) of `text`.
  struct Range {
    std::size_t begin = 0;
    std::size_t end = 0;

    bool operator==(const Range&) const = default;
  };

  std::string text;
  std::vector<Range> from_messages;  ///< sorted, disjoint, non-empty; everything else was written by the template
};

}  // namespace kvist::tokenizer

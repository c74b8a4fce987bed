// A prompt as text, with the mark of who wrote what.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace kvist::tokenizer {

/// What a chat template made of a conversation. Special tokens are recognised in what the template wrote, never in what
/// came with the messages: no user can inject one.
struct RenderedPrompt {
  /// Bytes [begin, end) of `text`.
  struct Range {
    std::size_t begin = 0;
    std::size_t end = 0;

    bool operator==(const Range&) const = default;
  };

  std::string text;
  std::vector<Range> from_messages;  ///< sorted, disjoint, not empty: everything else is the template's
};

}  // namespace kvist::tokenizer

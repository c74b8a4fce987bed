// Reads the chunks of one stream that differ in their text alone, without parsing each of them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "kvist/openai/types.h"

namespace kvist::openai {

/// A server repeats id, time, model and the rest in every chunk of a stream. So a chunk whose bytes around the content
/// are those of a chunk that was parsed before says the same but for the content. Owned by one stream. Threads: one.
class ChunkFrame {
 public:
  /// `json` was parsed as `view`. Chunks like it are recognised from here on, if it is one of content alone that is
  /// written without escapes; otherwise nothing changes.
  void learn(std::string_view json, const ChunkView& view);
  /// The content of a chunk, for which parse_chunk() would give what it gave for the learned one but for the content;
  /// nothing: it has to be parsed. Ensures: it is not empty.
  [[nodiscard]] std::optional<std::string_view> content_of(std::string_view json) const;

 private:
  std::string before_;  // the content's opening quote is its last byte; empty: nothing was learned
  std::string behind_;  // the content's closing quote is its first byte
};

}  // namespace kvist::openai

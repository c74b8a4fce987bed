// Generates readable text from a seed: starters and follow-ups of the workload, answers of the timed engine.
#pragma once

#include <cstdint>
#include <string>

#include "kvist/base/random.h"

namespace kvist::text {

/// An endless stream of prose-like English (ASCII sentences and paragraphs), the same for the same seed everywhere.
class ProseStream {
 public:
  explicit ProseStream(std::uint64_t seed);
  /// The next `bytes` bytes of the stream. A word may be cut between two calls.
  [[nodiscard]] std::string take(std::size_t bytes);

 private:
  void add_sentence();

  RandomStream random_;
  std::string buffer_;
  std::size_t sentences_left_in_paragraph_ = 0;  // 0: the next sentence begins a paragraph
};

/// Exactly `bytes` bytes of prose that end with a full stop.
[[nodiscard]] std::string prose(std::uint64_t seed, std::size_t bytes);

}  // namespace kvist::text

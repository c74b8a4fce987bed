// Where a gateway writes down what passes, without texts.
#pragma once

#include <cstdint>
#include <string>

namespace kvist::spec {

/// A record of traffic (docs/formats/record.md): a file and those it was rotated to, bounded together.
struct RecordSpec {
  std::string file;                             ///< *.jsonl; empty: nothing is recorded
  std::uint64_t max_file_bytes = 256ULL << 20;  ///< then it is renamed to FILE.1, that one to FILE.2, ...
  std::uint32_t files = 4;                      ///< at most, FILE among them; what is older is deleted

  bool operator==(const RecordSpec&) const = default;
};

}  // namespace kvist::spec

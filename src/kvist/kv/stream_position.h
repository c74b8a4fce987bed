// Where in a publisher's stream somebody stands.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace kvist::kv {

/// All frames of one run of a publisher up to `next - 1` have been applied, and nothing else.
struct StreamPosition {
  std::uint64_t next = 0;  ///< the number of the frame that follows
  /// Hashes of the payloads of the last applied frames in their order, the last one that of frame next - 1: by these
  /// the run is recognised. Never empty, and no more than next.
  std::vector<std::uint64_t> digests = {};
  bool counts_from_zero = false;  ///< the publisher's runs begin with 0, not with 1
  friend bool operator==(const StreamPosition&, const StreamPosition&) = default;
};

}  // namespace kvist::kv

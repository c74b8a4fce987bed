// The most that caches could have saved, whatever routed the requests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kvist/base/time.h"

namespace kvist::analysis {

/// A run of whole blocks of a prompt. What comes before it is part of its key: equal keys are equal contents after
/// equal beginnings.
struct Extent {
  std::uint64_t key = 0;
  std::uint32_t blocks = 0;
};

/// One request, as a prefix cache sees it.
struct OracleRequest {
  TimePoint sent;
  TimePoint answered;      ///< its first token, or its end without one: nothing that was sent later can have helped it
  std::size_t worker = 0;  ///< that had it
  std::vector<Extent> prompt;  ///< from its beginning, without the block of its last token, which is computed always
  std::vector<Extent> leaves;  ///< what it leaves beyond these: the rest of the prompt, and its answer
  bool counts = true;          ///< its reuse is in the sums; one that failed may only have left blocks for others
};

/// For each request, in the order of their sending, the most blocks of its prompt that an endless cache of all workers
/// together could have had: those of everything that was sent before.
[[nodiscard]] std::vector<std::uint64_t> endless_reuse(std::span<const OracleRequest> requests);

/// For each request the most blocks that it could have found in a cache that was empty at first: those left by requests
/// that were sent before its own answer began. Unlike endless_reuse() this bounds each request, whichever overtook
/// which, but not their sum: of two requests that were sent at once, each may have found the other's blocks.
[[nodiscard]] std::vector<std::uint64_t> findable(std::span<const OracleRequest> requests);

/// The most blocks that one cache of `capacity` blocks could have reused over all requests that count: it knows the
/// future, and keeps what one of them needs soonest (Belady's MIN, with the right to keep nothing). It counts the whole
/// capacity as cache, although running requests need blocks for themselves.
[[nodiscard]] std::uint64_t bounded_reuse(std::span<const OracleRequest> requests, std::uint64_t capacity);

/// Tokens that could have been reused, of the requests of one level that count.
struct CacheBounds {
  std::uint32_t block_size = 0;
  std::uint64_t prompt_tokens = 0;
  std::uint64_t endless = 0;         ///< by a common cache without end
  std::uint64_t routed_endless = 0;  ///< by a cache without end per worker, with the requests where they went
  std::uint64_t fleet = 0;           ///< by one cache as large as all workers' together; 0: their size is not known
  std::uint64_t routed = 0;  ///< by caches as large as the workers' are, with the requests where they went; as before
  bool sizes_known = false;

  bool operator==(const CacheBounds&) const = default;
};

/// `worker_blocks` are the sizes of the workers' caches; empty: not known. Requires: each request's worker is one of
/// them, if they are known.
[[nodiscard]] CacheBounds cache_bounds(std::span<const OracleRequest> requests, std::uint32_t block_size,
                                       std::span<const std::uint64_t> worker_blocks);

}  // namespace kvist::analysis

// What the workers' caches hold, each from the best source there is for it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "kvist/base/id.h"
#include "kvist/kv/block_hash.h"
#include "kvist/routing/kv_index.h"
#include "kvist/routing/worker_view.h"

namespace kvist::routing {

/// How much of a prompt a worker caches.
struct CacheDepth {
  std::uint32_t blocks = 0;  ///< leading blocks
  CacheTrust trust = CacheTrust::kNone;
};

/// Pure; one thread: the router's.
class CacheKnowledge {
 public:
  struct Options {
    std::string model;
    std::uint32_t block_size = 32;
    std::size_t workers = 0;
  };
  explicit CacheKnowledge(Options options);

  /// depths[w] for every worker of the fleet.
  void match(std::span<const kv::BlockHash> prompt, std::span<const WorkerView> fleet, std::span<CacheDepth> depths);

  [[nodiscard]] KvIndex& index() { return index_; }
  [[nodiscard]] const KvIndex& index() const { return index_; }

 private:
  KvIndex index_;
  std::vector<std::uint32_t> scratch_;
};

}  // namespace kvist::routing

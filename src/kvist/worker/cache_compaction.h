// What replays have instead of KV events that are no longer buffered.
#pragma once

#include <string>

#include "kvist/kv/cache_content.h"
#include "kvist/net/zmq_publisher.h"

namespace kvist::worker {

/// Follows the batches that leave the replay buffer, and makes one batch of what they left in the cache. So a gateway
/// that starts beside an old worker knows its whole cache. It holds the tokens of all blocks in the pool, from the
/// first batch that leaves the buffer on. Threads: the publisher's replay thread.
class CacheCompaction final : public net::ReplayCompaction {
 public:
  void take(const std::string& payload) override;
  [[nodiscard]] std::string message() const override;

 private:
  kv::CacheContent content_;
  double timestamp_s_ = 0;  // of the last batch that was taken
};

}  // namespace kvist::worker

// A server of known times: what a load generator measures of it can be held against what it did.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "kvist/base/error.h"
#include "kvist/base/time.h"
#include "kvist/net/event_loop.h"
#include "kvist/spec/deployment.h"

namespace kvist::loadgen {

struct ReferenceServerOptions {
  spec::Endpoint http;
  Duration first = std::chrono::milliseconds(50);  ///< from a request to its first token
  Duration gap = std::chrono::milliseconds(20);    ///< between two tokens
  Duration jitter{};                               ///< each token is up to so much later, below `gap`
};

/// Answers chats (POST /v1/chat/completions, streams only) by a clock of each stream's own: the first token so long
/// after the request was read, each further one so long after the one before was due, max_tokens of them. With jitter
/// each is later by an amount that follows from the number of its stream, and the next is not. A token is a write of
/// its own, and its instant is taken right before. GET /record has them, of streams that ended; POST /record/reset
/// empties it. Bounds: 100,000 tokens of an answer, 16 million in the record, further streams of which are dropped and
/// counted. It computes nothing, so that a client beside it has the processors. Threads: the loop's.
class ReferenceServer {
 public:
  [[nodiscard]] static Result<std::unique_ptr<ReferenceServer>> create(net::EventLoop& loop,
                                                                       const ReferenceServerOptions& options);
  virtual ~ReferenceServer() = default;
  [[nodiscard]] virtual std::uint16_t port() const = 0;
};

}  // namespace kvist::loadgen

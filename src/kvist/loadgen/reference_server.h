// A server of known times, with which a load generator's measurements can be compared.
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

/// Answers chats (POST /v1/chat/completions, streams only) with max_tokens tokens on a schedule of each stream's own:
/// the first token is due `first` after the request was read, each further one `gap` after the one before was due.
/// Jitter delays a token by an amount that follows from the number of its stream, without delaying the next. Each token
/// is a write of its own, and its instant is taken right before. GET /record has the instants of the streams that have
/// ended; POST /record/reset empties the record. Bounds: 100,000 tokens of an answer and 16 million in the record;
/// further streams are dropped from it and counted. The server computes nothing, so that a client beside it has the
/// processors. Threads: the loop's.
class ReferenceServer {
 public:
  [[nodiscard]] static Result<std::unique_ptr<ReferenceServer>> create(net::EventLoop& loop,
                                                                       const ReferenceServerOptions& options);
  virtual ~ReferenceServer() = default;
  [[nodiscard]] virtual std::uint16_t port() const = 0;
};

}  // namespace kvist::loadgen

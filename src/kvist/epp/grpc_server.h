// The gRPC server of ext_proc and of the health service.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "kvist/base/error.h"
#include "kvist/base/time.h"
#include "kvist/epp/message_stream.h"
#include "kvist/net/event_loop.h"
#include "kvist/spec/exposure_spec.h"

namespace kvist::epp {

/// Serves envoy.service.ext_proc.v3.ExternalProcessor/Process and grpc.health.v1.Health/Check. gRPC's threads receive,
/// send and read messages; what is to be done with one is posted to the loop. Of each stream at most 8 messages wait
/// for the loop, and nothing is read while 1 MiB is unsent, so that a proxy is slowed down instead of filling the
/// memory. Threads: the loop's. Requires: the loop outlives it.
class GrpcServer {
 public:
  struct Options {
    std::string host = "127.0.0.1";
    std::uint16_t port = 0;  ///< 0: any free port
    spec::ServerTlsSpec tls = {};
    std::size_t max_message_bytes = 4U << 20;
    std::size_t max_streams = 8'192;  ///< further ones end with RESOURCE_EXHAUSTED
  };
  struct Handlers {
    /// A stream has begun.
    std::function<std::shared_ptr<MessageReceiver>(std::shared_ptr<MessageSink>)> open;
    /// Whether this service is ready, by the name in the question; nothing: there is none of that name.
    std::function<std::optional<bool>(std::string_view service)> is_serving;
  };

  /// Binds and listens. The files of the certificate are read again when they change. Errors: kUnavailable.
  [[nodiscard]] static Result<std::unique_ptr<GrpcServer>> listen(net::EventLoop& loop, Options options,
                                                                  Handlers handlers);
  virtual ~GrpcServer() = default;
  [[nodiscard]] virtual std::uint16_t port() const = 0;
  /// Streams that were turned away because there were too many.
  [[nodiscard]] virtual std::uint64_t turned_away() const = 0;
  /// Takes no further streams and breaks off those that are not over by then. Blocks until all are. No handler is
  /// called any more afterwards.
  virtual void close(Duration patience) = 0;
};

}  // namespace kvist::epp

// Streams that are kept alive while nothing else comes: `stream_keepalive`.
#pragma once

#include <string>
#include <utility>

#include "kvist/base/time.h"
#include "kvist/net/http_server.h"

namespace kvist::gateway {

/// What the client of a stream has of it so far, which may be a head and comments before any worker has answered. Such
/// a head says 200, whatever becomes of the request, and no worker: another may still take over. Threads: the loop's.
class KeptStream {
 public:
  static constexpr int kStatus = 200;

  /// The client has a head from here on. Returns whether that is news.
  bool begin() { return !std::exchange(begun_, true); }
  [[nodiscard]] bool begun() const { return begun_; }
  void note_written(TimePoint at) { written_at_ = at; }

  /// Whether nothing was sent for so long, though the client has all that was. `arrived`: the request.
  [[nodiscard]] bool is_due(const net::HttpExchange& exchange, TimePoint arrived, TimePoint now,
                            Duration interval) const;
  /// Sends a comment. Returns whether a head had to be sent first.
  bool send_comment(net::HttpExchange& exchange, const std::string& request_id, TimePoint now);
  /// Answers behind the head: the body is sent as an event, as errors are in a begun stream. Returns whether it is an
  /// error. Requires: begun().
  [[nodiscard]] static bool answer(net::HttpExchange& exchange, const net::HttpResponse& answer);

 private:
  bool begun_ = false;
  TimePoint written_at_{};
};

}  // namespace kvist::gateway

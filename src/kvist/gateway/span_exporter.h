// Sends spans to a collector, beside the loops.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/time.h"
#include "kvist/gateway/otlp_json.h"
#include "kvist/gateway/request_report.h"
#include "kvist/gateway/warning_gate.h"
#include "kvist/net/event_loop.h"
#include "kvist/net/file_changes.h"
#include "kvist/net/http_client.h"
#include "kvist/spec/observation_spec.h"

namespace kvist::gateway {

/// Collects the reports of traced requests and posts their spans in batches, on a thread with a loop of its own. There
/// is one call at a time. A batch that the collector could not take now (no connection, 429, 502, 503, 504) is sent
/// again after a while, which grows; one that it refuses is counted and dropped. Memory: at most `max_waiting` requests
/// wait; further ones are dropped and counted. Threads: add() and counters(): any.
class SpanExporter {
 public:
  struct Counters {
    std::uint64_t exported = 0;  ///< requests, as the next two
    std::uint64_t dropped = 0;   ///< because too many waited
    std::uint64_t refused = 0;   ///< by the collector
    std::uint64_t failures = 0;  ///< calls to it that failed
    std::size_t waiting = 0;
  };

  /// Errors: files of header fields or of TLS that cannot be read.
  [[nodiscard]] static Result<std::unique_ptr<SpanExporter>> open(const spec::OtlpSpec& spec, std::string instance);
  /// The destructor tries for a moment to send what waits.
  ~SpanExporter();
  SpanExporter(const SpanExporter&) = delete;
  SpanExporter& operator=(const SpanExporter&) = delete;

  void add(std::shared_ptr<const RequestReport> report);
  [[nodiscard]] Counters counters() const;
  /// How long a batch that could not be sent waits after it had waited for `last`: twice as long, from `interval` on,
  /// up to kLongestPause, or `interval` if that is longer.
  [[nodiscard]] static Duration pause_after(Duration last, Duration interval) {
    return std::clamp(2 * last, interval, std::max(interval, kLongestPause));
  }
  static constexpr Duration kLongestPause = std::chrono::seconds(30);

 private:
  SpanExporter(const spec::OtlpSpec& spec, std::string instance, net::Headers headers, net::ServerSettings server);

  static constexpr std::size_t kMostInBatch = 512;
  static constexpr Duration kFarewell = std::chrono::seconds(2);

  void run();
  // On its own loop.
  void next(Duration in);
  void send();
  /// Files of header fields that have changed are read again. One that is not good changes nothing.
  void refresh_headers();
  void on_answer(const Result<net::HttpResponse>& answer);

  const spec::OtlpSpec spec_;
  const std::string base_url_;
  const std::string target_;
  SpanSource source_;
  const std::vector<std::string> header_files_;

  net::EventLoop loop_;
  net::FileStamps stamps_;                   // of the files, from before they were read
  net::Headers headers_;                     // of each batch
  std::unique_ptr<net::HttpClient> client_;  // lives on the loop, as all up to `ending_`
  std::unique_ptr<net::Timer> timer_;
  std::unique_ptr<net::Timer> farewell_;
  std::unique_ptr<net::HttpCall> call_;
  std::vector<std::shared_ptr<const RequestReport>> batch_;  // under way, or to be sent again
  Duration pause_{};                                         // before it is
  WarningGate warnings_;
  bool ending_ = false;

  mutable std::mutex mutex_;  // guards what follows
  std::deque<std::shared_ptr<const RequestReport>> waiting_;
  Counters counters_;

  std::thread thread_;
};

}  // namespace kvist::gateway

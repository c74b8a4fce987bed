// Watches one worker: is it healthy, what are its limits, how busy does it say it is.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "kvist/base/error.h"
#include "kvist/base/id.h"
#include "kvist/dispatch/fleet.h"
#include "kvist/net/event_loop.h"
#include "kvist/net/http_client.h"
#include "kvist/routing/worker_view.h"
#include "kvist/spec/deployment.h"

namespace kvist::gateway {

/// What a worker's /metrics says.
struct WorkerReport {
  routing::EngineLimits limits;
  double running = 0;                     ///< requests in its batch
  double waiting = 0;                     ///< requests in its queue
  double kv_usage = 0;                    ///< share of its blocks in use, 0 to 1
  std::optional<double> process_start_s;  ///< Unix time; a change is a restart

  /// By requests; what is cached beside is free to engines, and in no report. 0 where unknown.
  [[nodiscard]] std::uint64_t kv_blocks_in_use() const {
    return kv_usage > 0 && kv_usage <= 1 ? static_cast<std::uint64_t>(kv_usage * limits.kv_blocks + 0.5) : 0;
  }
};

/// Reads a worker's /metrics page; what it does not report stays at its default.
[[nodiscard]] Result<WorkerReport> read_worker_report(std::string_view page);

/// Every `interval`: GET /health, which the fleet's health state follows, then GET /metrics. A worker that has answered
/// a request since the last look is not asked for its health. While there is doubt (until it is healthy, after a
/// failure, while it stands still) a look follows after `doubt_interval`; the first one at once, when somebody raises
/// it. So it does while requests queue at a worker whose batch slots nobody knows: a few looks tell how many it has.
/// One round at a time, so a slow worker is asked less often. Loop thread only.
class WorkerMonitor {
 public:
  struct Options {
    Duration interval = std::chrono::seconds(5);
    Duration doubt_interval = std::chrono::seconds(1);
    Duration timeout = std::chrono::seconds(5);  ///< of each of the two calls
    std::uint32_t block_size = 0;                ///< what the gateway is configured for
  };
  /// What others want to know at once.
  struct Handlers {
    std::function<void()> on_healthy;             ///< it was not, or nothing was known of it
    std::function<void()> on_restarted;           ///< the worker's process is another one
    std::function<void()> on_block_size_changed;  ///< block_size_mismatch() may say something else than before
  };

  /// The others outlive it.
  WorkerMonitor(net::EventLoop& loop, net::HttpClient& client, dispatch::Fleet& fleet, WorkerId worker, std::string url,
                Options options, Handlers handlers);

  void start();
  /// Something speaks against the worker: look at once, but no more than ten times a second.
  void doubt();

  [[nodiscard]] const WorkerReport& report() const { return report_; }
  /// The worker's blocks have another size than the gateway expects: its KV events are refused.
  [[nodiscard]] bool block_size_mismatch() const {
    return report_.limits.block_size != 0 && report_.limits.block_size != options_.block_size;
  }
  [[nodiscard]] std::uint64_t restarts() const { return restarts_; }
  [[nodiscard]] std::uint64_t failed_scrapes() const { return failed_scrapes_; }
  /// Requests made to it.
  [[nodiscard]] std::uint64_t looks() const { return looks_; }

 private:
  static constexpr Duration kLeastPause = std::chrono::milliseconds(100);

  void look();
  [[nodiscard]] bool in_doubt() const;
  [[nodiscard]] bool queues_at_unknown_slots() const;
  void check_health();
  void on_health(const Result<net::HttpResponse>& answer);
  void scrape();
  void on_metrics(const Result<net::HttpResponse>& answer);
  void take_report(const WorkerReport& report);
  void wait();
  [[nodiscard]] const std::string& name() const { return fleet_->worker(worker_).name; }

  net::HttpClient* client_;
  dispatch::Fleet* fleet_;
  WorkerId worker_;
  std::string url_;
  Options options_;
  Handlers handlers_;
  WorkerReport report_;
  std::uint64_t restarts_ = 0;
  std::uint64_t failed_scrapes_ = 0;
  std::uint64_t looks_ = 0;
  TimePoint looked_{};    // when the last look began
  bool looking_ = false;  // it has not ended
  bool doubted_ = false;  // since its health was last asked for
  net::Timer timer_;
  std::unique_ptr<net::HttpCall> call_;
};

}  // namespace kvist::gateway

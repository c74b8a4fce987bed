// Monitors one worker: its health, its limits and its load, as it reports them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/id.h"
#include "kvist/dispatch/fleet.h"
#include "kvist/dispatch/model_watch.h"
#include "kvist/net/event_loop.h"
#include "kvist/net/http_client.h"
#include "kvist/routing/worker_view.h"
#include "kvist/spec/deployment.h"

namespace kvist::gateway {

/// What a worker's /metrics reports.
struct WorkerReport {
  routing::EngineLimits limits;
  double running = 0;                      ///< requests in its batch
  double waiting = 0;                      ///< requests in its queue
  double kv_usage = 0;                     ///< share of its blocks in use, 0 to 1
  std::optional<double> process_start_s;   ///< Unix time; a change is a restart
  std::optional<double> kv_event_batches;  ///< published since then; kvist's own workers report it

  /// The blocks that requests use; 0 if unknown. Cached blocks that no request uses count as free in engines, and in
  /// this report.
  [[nodiscard]] std::uint64_t kv_blocks_in_use() const {
    return kv_usage > 0 && kv_usage <= 1 ? static_cast<std::uint64_t>(kv_usage * limits.kv_blocks + 0.5) : 0;
  }
};

/// Reads a worker's /metrics page. Fields that it does not report keep their defaults.
[[nodiscard]] Result<WorkerReport> read_worker_report(std::string_view page);

/// Checks a worker every `interval`: GET /health, which decides the fleet's health state, then GET /metrics. If the
/// worker has answered a request since the last check, its health is not asked for. GET /v1/models comes between the
/// two every `model_interval`, while there is doubt, and after a restart; a worker that was not healthy is healthy
/// again only when its models are known, because it may be another process with another model. While there is doubt
/// (until the worker is healthy, after a failure, while it stalls), checks follow every `doubt_interval`, the first one
/// at once. The same pace holds while requests queue at a worker whose number of batch slots is unknown, because a few
/// reports are enough to infer it. There is one check at a time, so a slow worker is checked less often. Threads: the
/// loop's.
class WorkerMonitor {
 public:
  struct Options {
    Duration interval = std::chrono::seconds(5);
    Duration doubt_interval = std::chrono::seconds(1);
    Duration model_interval = std::chrono::seconds(30);
    Duration timeout = std::chrono::seconds(5);  ///< of each of the requests
    std::uint32_t block_size = 0;                ///< the one in the gateway's configuration
  };
  /// Called when something has changed.
  struct Handlers {
    std::function<void()> on_healthy;             ///< it was not healthy before, or unknown
    std::function<void()> on_restarted;           ///< the worker's process is a new one
    std::function<void()> on_block_size_changed;  ///< block_size_mismatch() may have changed
    std::function<void()> on_sign_of_life;        ///< it answered well
    /// It has published so many batches of KV events.
    std::function<void(std::uint64_t)> on_kv_event_batches;
    /// It was asked for its models; empty: it has no list.
    std::function<void(const std::vector<dispatch::ServedModel>&)> on_models;
  };

  /// Requires: the other arguments outlive this object.
  WorkerMonitor(net::EventLoop& loop, net::HttpClient& client, dispatch::Fleet& fleet, WorkerId worker, std::string url,
                Options options, Handlers handlers);

  void start();
  /// There is reason to doubt the worker's health. Checks it at once, but at most ten times a second.
  void doubt();

  [[nodiscard]] const WorkerReport& report() const { return report_; }
  /// Whether the worker's blocks have another size than the gateway's, so that its KV events are refused.
  [[nodiscard]] bool block_size_mismatch() const {
    return report_.limits.block_size != 0 && report_.limits.block_size != options_.block_size;
  }
  [[nodiscard]] std::uint64_t restarts() const { return restarts_; }
  [[nodiscard]] std::uint64_t failed_scrapes() const { return failed_scrapes_; }
  /// The number of checks.
  [[nodiscard]] std::uint64_t looks() const { return looks_; }

 private:
  static constexpr Duration kLeastPause = std::chrono::milliseconds(100);

  void look();
  [[nodiscard]] bool in_doubt() const;
  [[nodiscard]] bool queues_at_unknown_slots() const;
  void check_health();
  void on_health(const Result<net::HttpResponse>& answer);
  [[nodiscard]] bool asks_for_models() const;
  void check_models();
  void on_models(const Result<net::HttpResponse>& answer);
  /// The worker's process is well. Asks for its models if that is due.
  void after_health();
  void finish_health();
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
  TimePoint looked_{};      // when the last check began
  bool looking_ = false;    // a check is under way
  bool doubted_ = false;    // doubt() was called since the health was last asked for
  bool well_ = false;       // its health was asked for in this check, and is good
  bool models_due_ = true;  // they were never asked for, or there is reason to ask again
  TimePoint models_seen_{};
  net::Timer timer_;
  std::unique_ptr<net::HttpCall> call_;
};

}  // namespace kvist::gateway

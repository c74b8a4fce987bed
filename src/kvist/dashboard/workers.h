// The workers as the dashboard shows them: figures from successive readings, their past, and what changed.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kvist/base/json_writer.h"
#include "kvist/dashboard/event_log.h"
#include "kvist/dashboard/figures.h"
#include "kvist/dashboard/time_series.h"
#include "kvist/dashboard/worker_readings.h"

namespace kvist::dashboard {

/// One second of readings. What could not be read is nothing.
struct FleetReading {
  std::int64_t second = 0;  ///< Unix time
  std::optional<GatewayStatus> status = {};
  std::optional<GatewayCounters> counters = {};
  std::map<std::string, WorkerPage, std::less<>> pages = {};  ///< by worker
};

/// Threads: one. Memory: that of kMostHistories series, and half a minute of readings per worker.
class Workers {
 public:
  /// Further workers are shown, but have no past.
  static constexpr std::size_t kMostHistories = 64;

  /// Takes the readings of a second, and adds what has changed to the log.
  void add(const FleetReading& reading, EventLog& log);

  /// Whether a gateway has told of workers.
  [[nodiscard]] bool known() const { return known_; }
  [[nodiscard]] std::size_t size() const { return order_.size(); }
  /// The sum over the workers that report it; nothing if none does.
  [[nodiscard]] std::optional<double> queued() const;
  /// Requests in flight at the busiest worker over the mean; nothing without requests or with one worker.
  [[nodiscard]] std::optional<double> imbalance() const;
  /// The value of "workers" in a sample.
  void write(JsonWriter& json) const;
  /// The answer to "history" of workers.
  [[nodiscard]] std::string history_json(std::int64_t window_s, std::size_t most) const;
  [[nodiscard]] std::size_t history_bytes() const;

 private:
  struct Counters {
    std::int64_t second = 0;
    WorkerPage page;
    std::optional<double> ended = {};
  };
  struct Worker {
    WorkerStatus status;
    std::optional<WorkerPage> page = {};
    std::int64_t page_second = 0;
    std::deque<Counters> recent = {};  // of the last half minute
    std::optional<double> batches = {};
    std::optional<std::int64_t> event_second = {};  // of its last KV event
    bool gone = false;
    WorkerFigures figures = {};
    std::unique_ptr<TimeSeries> history = {};
  };

  void take_status(const GatewayStatus& status, std::int64_t second, EventLog& log);
  void take_page(Worker& worker, const WorkerPage& page, const FleetReading& reading);
  void take_batches(Worker& worker, const GatewayCounters& counters, std::int64_t second);
  void compute(Worker& worker, std::int64_t second);
  void compute_shares(std::int64_t second);
  [[nodiscard]] std::optional<double> ended_within(const Worker& worker) const;
  void write_worker(JsonWriter& json, const Worker& worker) const;
  [[nodiscard]] bool answers(const Worker& worker) const;
  /// Whether what the gateway said last is of now.
  [[nodiscard]] bool gateway_answers() const;

  std::map<std::string, Worker, std::less<>> all_;
  std::vector<std::string> order_;  // of those that the gateway has now
  std::int64_t second_ = 0;
  std::int64_t status_second_ = 0;
  bool known_ = false;
};

}  // namespace kvist::dashboard

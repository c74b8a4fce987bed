// The records of a run, from which reports are made.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "kvist/results/client_certificate.h"
#include "kvist/spec/arm.h"
#include "kvist/workload/snapshot.h"
#include "kvist/workload/turn_sample.h"

namespace kvist::results {

/// Engine steps by the kind of work.
struct StepCounts {
  std::uint64_t prefill = 0;  ///< prompts only
  std::uint64_t mixed = 0;    ///< prompts and answers
  std::uint64_t decode = 0;   ///< answers only
  friend bool operator==(const StepCounts&, const StepCounts&) = default;
};

/// One worker over one level: differences of its counters between the idle moments before and after, and gauges at each
/// snapshot.
struct WorkerLevelRecord {
  std::string worker;
  std::uint64_t prefix_query_tokens = 0;
  std::uint64_t prefix_hit_tokens = 0;
  std::uint64_t prompt_tokens = 0;
  std::uint64_t prefilled_tokens = 0;
  std::uint64_t generated_tokens = 0;
  std::optional<std::uint64_t> evictions;  ///< nothing if the engine does not count them
  std::uint64_t preemptions = 0;
  std::uint32_t restarts = 0;
  std::optional<StepCounts> steps;        ///< nothing if the engine does not report them (or in an older file)
  std::optional<double> acceptance_rate;  ///< of draft tokens; nothing without speculation
  double kv_usage_max = 0;                ///< 0 to 1, over the snapshots
  double running_mean = 0;                ///< over the snapshots
  double waiting_max = 0;
};

/// One worker at one instant of a level; counters count from the start of the level.
struct TimelinePoint {
  TimePoint at;
  std::uint32_t running = 0;  ///< batch slots taken
  std::uint32_t waiting = 0;  ///< requests queued for a slot
  std::uint32_t kv_blocks_used = 0;
  std::uint64_t evictions = 0;
  std::uint64_t preemptions = 0;
  std::uint64_t prefill_backlog_tokens = 0;
  float step_ms = 0;  ///< the longest step since the previous point; 0: none ended
};
struct WorkerTimeline {
  std::string worker;
  std::uint32_t kv_blocks = 0;  ///< of the pool
  std::uint32_t max_batch_size = 0;
  std::vector<TimelinePoint> points;
};

/// How busy the load generator was, which shows whether it disturbed its own measurement.
struct ClientHealth {
  double loop_delay_p99_ms = 0;  ///< how late the loop ran a timer
  double loop_delay_max_ms = 0;
  double cpu_share = 0;                               ///< CPU seconds of the process per second
  double send_delay_p99_ms = 0;                       ///< sent minus intended
  std::optional<ClientCertificate> certificate = {};  ///< nothing: an older file, or a client that takes no time
};

/// An agent of a load that several machines drove.
struct LoadAgent {
  std::string name;  ///< host:port
  std::uint32_t threads = 1;
  std::uint64_t turns = 0;                   ///< whose samples have come
  std::optional<Duration> clock_ahead = {};  ///< of the coordinator's, before the load
  Duration clock_bound{};                    ///< by how much that may be wrong, at most
  std::optional<Duration> clock_drift = {};  ///< gained during the load; nothing: not compared afterwards
  std::optional<std::string> lost = {};      ///< why it was
  ClientHealth client = {};                  ///< of its own turns
};

/// One concurrency level in one mode. Times of samples and snapshots are core time of the load generator's process.
struct LevelRecord {
  spec::Arm mode = spec::RoutingMode::kRoundRobin;
  std::uint32_t concurrency = 0;
  std::uint32_t repetition = 0;  ///< 0 to the method's repetitions - 1
  std::uint64_t seed = 0;
  std::string started_utc;  ///< ISO 8601; empty for a simulated level
  TimePoint started;
  TimePoint measure_from;  ///< end of the warm-up
  TimePoint measure_to;    ///< last snapshot
  std::vector<workload::Snapshot> snapshots;
  std::vector<workload::TurnSample> turns;  ///< all of the level, warm-up and drain included
  std::vector<WorkerLevelRecord> workers;
  std::vector<WorkerTimeline> timelines;  ///< empty if none was recorded
  ClientHealth client;
  std::vector<LoadAgent> agents = {};  ///< that drove it; empty: the process that measured did
  std::vector<std::string> remarks;    ///< remarks for the reader: time-outs while draining, restarts, ...
};

/// A run from which another was merged.
struct RunSource {
  std::string place;  ///< as the user named it: a folder or a file
  std::string name;
  std::string started_utc;
  std::string levels;  ///< what it gave, in words: "round_robin at 50, 60, 70, 3 repetitions"
  friend bool operator==(const RunSource&, const RunSource&) = default;
};

/// One sweep. Between two equal simulated runs only members marked as provenance differ.
struct RunRecord {
  std::string name;
  std::string started_utc;   ///< provenance; ISO 8601
  std::string finished_utc;  ///< provenance; empty until the run is finished
  std::string kvist_version;
  bool simulated = false;
  std::string spec_yaml;                       ///< the sweep file as it was read
  std::map<std::string, std::string> machine;  ///< provenance: host, processor, cores, kernel
  std::uint32_t threads = 1;                   ///< provenance: levels measured at once, at most
  double wall_s = 0;                           ///< provenance: wall-clock time from the beginning to the end
  std::vector<LevelRecord> levels;
  std::vector<RunSource> sources = {};  ///< of a merged run; empty: it was measured as one
  std::vector<std::string> left_out;    ///< by whom makes a report: measurements that it does not have; not stored
};

}  // namespace kvist::results

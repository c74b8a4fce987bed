// Writes down what passes, beside the loops.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/base/time.h"
#include "kvist/gateway/record_file.h"
#include "kvist/gateway/record_line.h"
#include "kvist/gateway/traffic_record.h"
#include "kvist/spec/deployment.h"

namespace kvist::gateway {

/// A recording of traffic. add() takes a lock for as long as it takes to put a few words into a list; hashing,
/// formatting and the disk belong to a thread of its own. Bounded: where that thread is behind, requests are dropped
/// from the record and counted. A disk that is full costs the record lines, and a warning now and then, and no request
/// anything. Threads: any. Ensures: destroying it writes what waits.
class RecordWriter {
 public:
  struct Options {
    spec::RecordSpec record;
    Recording recording;
    std::size_t max_waiting = 16'384;            ///< requests
    std::size_t max_waiting_blocks = 4'000'000;  ///< of their prompts: 32 MB that would be gone otherwise
  };
  struct Counters {
    std::uint64_t added = 0;
    std::uint64_t dropped = 0;  ///< as too many waited
    std::uint64_t waiting = 0;
    RecordFile::Counters file;
  };

  /// A file that is there already is rotated away: it is of another recording.
  [[nodiscard]] static Result<std::unique_ptr<RecordWriter>> open(Options options);
  ~RecordWriter();
  RecordWriter(const RecordWriter&) = delete;
  RecordWriter& operator=(const RecordWriter&) = delete;

  void add(TrafficRecord record);
  [[nodiscard]] Counters counters() const;

 private:
  RecordWriter(Options options, RecordFile file);
  void run();
  void write(const std::vector<TrafficRecord>& batch);

  const Options options_;
  RecordFile file_;  // its thread's

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable woken_;
  std::vector<TrafficRecord> waiting_;
  std::size_t waiting_blocks_ = 0;
  Counters counters_;
  bool stopping_ = false;

  std::thread thread_;
};

/// What a gateway with these settings records under: a key and a name that are drawn from the system's randomness and
/// die with the process. `now` and `unix_seconds` are the instant at which the recording begins, by core time and by
/// the calendar.
[[nodiscard]] Recording new_recording(const spec::ServedModelSpec& model, TimePoint now, double unix_seconds);

}  // namespace kvist::gateway

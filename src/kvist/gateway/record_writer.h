// Records traffic, beside the loops.
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

/// A recording of traffic. add() holds a lock only while it puts a few words into a list; a thread of its own hashes,
/// formats and writes. Bounded: if that thread is behind, requests are dropped from the record and counted. If the disk
/// is full, lines are lost and a warning is logged now and then; requests are not affected. Threads: any. Ensures:
/// destroying it writes what waits.
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

  /// A file that is there already belongs to another recording and is rotated away.
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

/// The recording of a gateway with these settings: its key and its number are drawn from the system's randomness and
/// end with the process. `now` and `unix_seconds` are the instant at which the recording begins, by core time and by
/// the calendar.
[[nodiscard]] Recording new_recording(const spec::ServedModelSpec& model, TimePoint now, double unix_seconds);

}  // namespace kvist::gateway

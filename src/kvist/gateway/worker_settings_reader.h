// Reads the files that belong to workers which come, beside the loop.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/gateway/reading_pool.h"
#include "kvist/gateway/worker_settings.h"
#include "kvist/net/event_loop.h"
#include "kvist/net/file_changes.h"
#include "kvist/net/http_client.h"

namespace kvist::gateway {

/// A bundle of authorities takes milliseconds to read, and a disk may take seconds. So a thread of this object reads
/// the files. Files that several workers have in common are read once, as long as they do not change. Threads: the
/// loop's; the other one is made for the first worker that has files.
class WorkerSettingsReader {
 public:
  using Done = std::function<void(const Result<net::ServerSettings>&)>;

  explicit WorkerSettingsReader(net::EventLoop& loop);
  /// Waits for what is being read.
  ~WorkerSettingsReader();
  WorkerSettingsReader(const WorkerSettingsReader&) = delete;
  WorkerSettingsReader& operator=(const WorkerSettingsReader&) = delete;

  /// Calls `done` with the settings or the error: at once if nothing has to be read, otherwise from the loop. It is not
  /// called after the destruction.
  void read(const WorkerSettingsSource& source, Done done);
  /// Whether somebody waits for settings. Until nobody does, the destructor waits for the disk.
  [[nodiscard]] bool is_reading() const { return reading_ > 0; }

 private:
  struct Known {
    WorkerSettingsSource source;
    net::FileStamps stamps;
    net::ServerSettings settings;
  };
  /// On the pool's thread.
  [[nodiscard]] Result<net::ServerSettings> look_up(const WorkerSettingsSource& source);

  static constexpr std::size_t kMostKnown = 64;

  net::EventLoop* loop_;
  std::size_t reading_ = 0;            // calls of read() whose `done` is to come
  std::vector<Known> known_;           // the pool's thread has them
  std::unique_ptr<ReadingPool> pool_;  // ends before them
};

}  // namespace kvist::gateway

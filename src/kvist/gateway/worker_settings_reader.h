// Reads the files that belong to workers beside the loop: when they come, and when the files change.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "kvist/base/error.h"
#include "kvist/gateway/known_worker_settings.h"
#include "kvist/gateway/reading_pool.h"
#include "kvist/gateway/worker_settings.h"
#include "kvist/net/event_loop.h"
#include "kvist/net/http_client.h"

namespace kvist::gateway {

/// A bundle of authorities takes milliseconds to read, and a disk may take seconds. So a thread of this object reads
/// the files, and looks whether they have changed. Threads: the loop's; the other one is made for the first worker that
/// has files.
class WorkerSettingsReader {
 public:
  using Done = std::function<void(const Result<net::ServerSettings>&)>;

  /// `known`: of the workers that are there already.
  explicit WorkerSettingsReader(net::EventLoop& loop, KnownWorkerSettings known = {});
  /// Waits for what is being read.
  ~WorkerSettingsReader();
  WorkerSettingsReader(const WorkerSettingsReader&) = delete;
  WorkerSettingsReader& operator=(const WorkerSettingsReader&) = delete;

  /// Calls `done` with the settings or the error: at once if nothing has to be read, otherwise from the loop. It is not
  /// called after the destruction.
  void read(const WorkerSettingsSource& source, Done done);
  /// Looks whether files of these sources, which were read before, have changed, and calls `changed` from the loop with
  /// all that was read again, which may be nothing. `ask`: reads them all. It is not called after the destruction.
  using Changed = std::function<void(const std::vector<KnownWorkerSettings::Change>&)>;
  void look(std::vector<WorkerSettingsSource> in_use, bool ask, Changed changed);
  /// Whether somebody waits for settings. Until nobody does, the destructor waits for the disk.
  [[nodiscard]] bool is_reading() const { return reading_ > 0; }

 private:
  /// `work` runs on the pool's thread, what it returns on the loop.
  void submit(ReadingPool::Work work);

  net::EventLoop* loop_;
  std::size_t reading_ = 0;            // calls of read() and look() whose answer is to come
  KnownWorkerSettings known_;          // the pool's thread has it
  std::unique_ptr<ReadingPool> pool_;  // ends before it
};

}  // namespace kvist::gateway

// Notices when files change.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "kvist/net/event_loop.h"
#include "kvist/net/file_changes.h"
#include "kvist/net/work_pool.h"

namespace kvist::net {

/// Looks every second whether files have changed (another time, size or inode; so a file that is replaced by renaming
/// is noticed too), and has those read that have, once they no longer change. A disk may take its time, and so may what
/// is in the files; so a thread of this object looks and reads. Threads: the loop's. The destructor waits for what is
/// being read.
class WatchedFiles {
 public:
  explicit WatchedFiles(EventLoop& loop);

  /// To be taken before files are read for the first time, so that a change from then on is noticed. Threads: any.
  [[nodiscard]] static FileStamps stamps_of(const std::vector<std::string>& files);
  /// Requires: start() was not called yet. `before`: their stamps. `read` runs on the thread of this object, what it
  /// returns on the loop.
  void add(std::vector<std::string> files, FileStamps before, WorkPool::Work read);
  void start();
  /// Has all files read after the next look, except those that change just then: they are read later.
  void ask();

 private:
  struct Group {
    std::vector<std::string> files;
    FileChanges changes;
    WorkPool::Work read;
  };
  void look();
  void on_stamps(std::vector<FileStamps> stamps);

  std::vector<Group> groups_;  // from start() on, the thread looks at their `files`
  Timer timer_;
  WorkPool pool_;  // ends before the groups
};

}  // namespace kvist::net

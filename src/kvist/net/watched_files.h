// Notices when files change.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "kvist/net/event_loop.h"
#include "kvist/net/file_changes.h"

namespace kvist::net {

/// Looks every second whether files have changed (another time, size or inode; so a file that is replaced by renaming
/// is noticed too), and calls the handler of those that have, once they no longer change. Threads: the loop's.
class WatchedFiles {
 public:
  explicit WatchedFiles(EventLoop& loop);

  /// To be taken before files are read for the first time, so that a change from then on is noticed.
  [[nodiscard]] static FileStamps stamps_of(const std::vector<std::string>& files);
  /// Requires: start() was not called yet. `before`: their stamps.
  void add(std::vector<std::string> files, FileStamps before, std::function<void()> on_change);
  void start();
  /// Calls all handlers at the next look, except those of files that change just then: they are called later.
  void ask();

 private:
  struct Group {
    std::vector<std::string> files;
    FileChanges changes;
    std::function<void()> on_change;
  };
  void look();

  std::vector<Group> groups_;
  Timer timer_;
};

}  // namespace kvist::net

// Notices when files change.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "kvist/net/event_loop.h"

namespace kvist::gateway {

/// Looks every second whether files have changed (another time, size or inode; so a file that is replaced by renaming
/// is noticed too), or the process has got SIGHUP, and then calls the handler of those files. Threads: the loop's.
class WatchedFiles {
 public:
  explicit WatchedFiles(net::EventLoop& loop);

  /// Requires: start() was not called yet.
  void add(std::vector<std::string> files, std::function<void()> on_change);
  void start();

 private:
  struct Stamp {
    std::int64_t seconds = 0;
    std::int64_t nanoseconds = 0;
    std::uint64_t size = 0;
    std::uint64_t inode = 0;
    bool operator==(const Stamp&) const = default;
  };
  struct Group {
    std::vector<std::string> files;
    std::vector<Stamp> stamps;
    std::function<void()> on_change;
  };
  [[nodiscard]] static std::vector<Stamp> stamps_of(const std::vector<std::string>& files);
  void look();

  std::vector<Group> groups_;
  net::Timer timer_;
};

}  // namespace kvist::gateway

#include "kvist/net/watched_files.h"

#include <sys/stat.h>

namespace kvist::net {
namespace {

constexpr Duration kInterval = std::chrono::seconds(1);

}  // namespace

WatchedFiles::WatchedFiles(EventLoop& loop) : timer_(loop) {}

void WatchedFiles::add(std::vector<std::string> files, FileStamps before, std::function<void()> on_change) {
  groups_.push_back({std::move(files), FileChanges(std::move(before)), std::move(on_change)});
}

FileStamps WatchedFiles::stamps_of(const std::vector<std::string>& files) {
  FileStamps stamps;
  for (const std::string& file : files) {
    struct stat found{};
    FileStamp stamp;
    if (::stat(file.c_str(), &found) == 0) {
      stamp = {.seconds = found.st_mtim.tv_sec,
               .nanoseconds = found.st_mtim.tv_nsec,
               .size = static_cast<std::uint64_t>(found.st_size),
               .inode = found.st_ino};
    }
    stamps.push_back(stamp);
  }
  return stamps;
}

void WatchedFiles::start() {
  if (groups_.empty()) return;
  timer_.arm(now() + kInterval, [this] { look(); });
}

void WatchedFiles::ask() {
  for (Group& group : groups_) group.changes.ask();
}

// The stamps are taken before the file is read, so that a change while it is read is noticed the next time.
void WatchedFiles::look() {
  for (Group& group : groups_) {
    if (group.changes.look(stamps_of(group.files))) group.on_change();
  }
  timer_.arm(now() + kInterval, [this] { look(); });
}

}  // namespace kvist::net

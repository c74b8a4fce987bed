#include "kvist/net/watched_files.h"

#include <sys/stat.h>

#include <cstddef>
#include <limits>

#include "kvist/base/check.h"

namespace kvist::net {
namespace {

constexpr Duration kInterval = std::chrono::seconds(1);

}  // namespace

// What waits is bounded: a look, and one reading of each group, which ends before the next look.
WatchedFiles::WatchedFiles(EventLoop& loop)
    : timer_(loop), pool_(loop, {.threads = 1, .max_waiting = std::numeric_limits<std::size_t>::max()}) {}

void WatchedFiles::add(std::vector<std::string> files, FileStamps before, WorkPool::Work read) {
  groups_.push_back({std::move(files), FileChanges(std::move(before)), std::move(read)});
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

void WatchedFiles::look() {
  const bool submitted = pool_.submit(
      [this]() -> std::function<void()> {
        std::vector<FileStamps> stamps;
        stamps.reserve(groups_.size());
        for (const Group& group : groups_) stamps.push_back(stamps_of(group.files));
        return [this, stamps = std::move(stamps)] { on_stamps(stamps); };
      },
      0);
  KVIST_CHECK(submitted, "a pool without a bound takes everything");
}

// The stamps are taken before the file is read, so that a change while it is read is noticed the next time.
void WatchedFiles::on_stamps(std::vector<FileStamps> stamps) {
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    Group& group = groups_[i];
    if (!group.changes.look(std::move(stamps[i]))) continue;
    const bool submitted = pool_.submit(group.read, 0);
    KVIST_CHECK(submitted, "a pool without a bound takes everything");
  }
  timer_.arm(now() + kInterval, [this] { look(); });
}

}  // namespace kvist::net

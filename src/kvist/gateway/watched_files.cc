#include "kvist/gateway/watched_files.h"

#include <sys/stat.h>

#include <cstdint>

#include "kvist/net/hangup_signal.h"

namespace kvist::gateway {
namespace {

constexpr Duration kInterval = std::chrono::seconds(1);

}  // namespace

WatchedFiles::WatchedFiles(net::EventLoop& loop) : timer_(loop) {}

void WatchedFiles::add(std::vector<std::string> files, std::function<void()> on_change) {
  std::vector<Stamp> stamps = stamps_of(files);
  groups_.push_back({std::move(files), std::move(stamps), std::move(on_change)});
}

std::vector<WatchedFiles::Stamp> WatchedFiles::stamps_of(const std::vector<std::string>& files) {
  std::vector<Stamp> stamps;
  for (const std::string& file : files) {
    struct stat found{};
    Stamp stamp;
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
  net::listen_for_hangup();
  timer_.arm(net::now() + kInterval, [this] { look(); });
}

// The stamps are taken before the file is read, so that a change during that is noticed the next time.
void WatchedFiles::look() {
  const bool asked = net::take_hangup();
  for (Group& group : groups_) {
    std::vector<Stamp> now = stamps_of(group.files);
    if (!asked && now == group.stamps) continue;
    group.stamps = std::move(now);
    group.on_change();
  }
  timer_.arm(net::now() + kInterval, [this] { look(); });
}

}  // namespace kvist::gateway

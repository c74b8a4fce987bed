#include "kvist/sweep/folder_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>

#include <cerrno>
#include <cstring>

namespace kvist::sweep {

Result<FolderLock> FolderLock::take(const std::string& folder) {
  FolderLock lock;
  lock.fd_ = net::UniqueFd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!lock.fd_.valid()) return fail(ErrorCode::kNotFound, fmt::format("{}: {}", folder, std::strerror(errno)));
  if (::flock(lock.fd_.get(), LOCK_EX | LOCK_NB) == 0) return lock;
  if (errno != EWOULDBLOCK) return lock;  // a file system without locks
  return fail(ErrorCode::kUnavailable, folder + ": another kvist is measuring into it");
}

}  // namespace kvist::sweep

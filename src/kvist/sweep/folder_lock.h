// Keeps two processes from measuring into one folder of results.
#pragma once

#include <string>

#include "kvist/base/error.h"
#include "kvist/net/socket.h"

namespace kvist::sweep {

/// Held by the process that adds levels to the results in a folder; its end, however it comes, releases it. Who only
/// reads needs none. Threads: a value, used by one at a time.
class FolderLock {
 public:
  FolderLock() = default;
  /// Errors: kUnavailable if another process holds it.
  [[nodiscard]] static Result<FolderLock> take(const std::string& folder);

 private:
  net::UniqueFd fd_;
};

}  // namespace kvist::sweep

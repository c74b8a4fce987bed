// When a file that was changed is to be read again.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace kvist::net {

/// What the system says of a file; all 0 if there is none.
struct FileStamp {
  std::int64_t seconds = 0;  ///< of its last change
  std::int64_t nanoseconds = 0;
  std::uint64_t size = 0;
  std::uint64_t inode = 0;

  bool operator==(const FileStamp&) const = default;
};
/// The stamps of several files that are read together.
using FileStamps = std::vector<FileStamp>;

/// Decides when files are to be read again, from what their stamps were at one look after the other. Files are read
/// only when two looks in a row find the same stamps, because a file that is rewritten in place is incomplete at first.
/// A pure class. Threads: one.
class FileChanges {
 public:
  /// `loaded`: the stamps from before the files were read for the first time.
  explicit FileChanges(FileStamps loaded) : read_(loaded), seen_(std::move(loaded)) {}

  /// Asks for the files to be read again even if they have not changed.
  void ask() { asked_ = true; }
  /// Whether to read the files now; `now` are their stamps. If so, they count as read.
  [[nodiscard]] bool look(FileStamps now) {
    const bool rests = now == seen_;
    seen_ = std::move(now);
    if (!rests || (!asked_ && seen_ == read_)) return false;
    read_ = seen_;
    asked_ = false;
    return true;
  }

 private:
  FileStamps read_;  // when they were read last
  FileStamps seen_;  // at the last look
  bool asked_ = false;
};

}  // namespace kvist::net

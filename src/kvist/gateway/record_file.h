// The file of a record: whole lines, rotated by size.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "kvist/base/error.h"
#include "kvist/spec/record_spec.h"

namespace kvist::gateway {

/// Appends lines to FILE. When FILE would grow beyond its bound it becomes FILE.1, FILE.1 becomes FILE.2 and so on, and
/// the oldest is deleted. A file always holds whole lines: if a full disk took only a part of a line, that part is
/// removed. Threads: one.
class RecordFile {
 public:
  struct Counters {
    std::uint64_t lines = 0;
    std::uint64_t bytes = 0;  ///< with the heads of files
    std::uint64_t rotations = 0;
    std::uint64_t failures = 0;  ///< of the file system
    std::uint64_t lost_lines = 0;
  };
  /// The first line of the `part`-th file, from 0.
  using Head = std::function<std::string(std::uint64_t part)>;

  /// Rotates a file that is there already. Errors: the file cannot be made.
  [[nodiscard]] static Result<RecordFile> open(spec::RecordSpec spec, Head head);
  ~RecordFile();
  RecordFile(RecordFile&& other) noexcept;
  RecordFile(const RecordFile&) = delete;
  RecordFile& operator=(const RecordFile&) = delete;
  RecordFile& operator=(RecordFile&&) = delete;

  /// Adds a line, which is written with the next ones, or by flush(). Requires: `line` is one line with its end.
  void append(std::string_view line);
  void flush();

  [[nodiscard]] const Counters& counters() const { return counters_; }
  [[nodiscard]] const std::string& last_error() const { return last_error_; }

 private:
  RecordFile(spec::RecordSpec spec, Head head);
  [[nodiscard]] bool begin();
  void rotate();
  [[nodiscard]] bool write_all(std::string_view text);
  void note_failure(std::string_view doing);

  spec::RecordSpec spec_;
  Head head_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;  // of the file, without what is pending
  std::uint64_t part_ = 0;
  std::string pending_;
  std::uint64_t pending_lines_ = 0;
  Counters counters_;
  std::string last_error_;
};

}  // namespace kvist::gateway

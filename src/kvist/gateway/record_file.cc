#include "kvist/gateway/record_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

namespace kvist::gateway {
namespace {

constexpr std::size_t kPendingBytes = std::size_t{256} << 10;

std::string rotated(const std::string& file, std::uint32_t number) {
  return number == 0 ? file : fmt::format("{}.{}", file, number);
}

}  // namespace

Result<RecordFile> RecordFile::open(spec::RecordSpec spec, Head head) {
  RecordFile file(std::move(spec), std::move(head));
  file.rotate();
  if (file.begin()) return file;
  return fail(ErrorCode::kInvalidArgument, fmt::format("record {}: {}", file.spec_.file, file.last_error_));
}

RecordFile::RecordFile(spec::RecordSpec spec, Head head) : spec_(std::move(spec)), head_(std::move(head)) {}

RecordFile::RecordFile(RecordFile&& other) noexcept
    : spec_(std::move(other.spec_)),
      head_(std::move(other.head_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_(other.size_),
      part_(other.part_),
      pending_(std::move(other.pending_)),
      pending_lines_(other.pending_lines_),
      counters_(other.counters_),
      last_error_(std::move(other.last_error_)) {}

RecordFile::~RecordFile() {
  if (descriptor_ < 0) return;
  flush();
  ::close(descriptor_);
}

void RecordFile::append(std::string_view line) {
  const std::uint64_t size = size_ + pending_.size();
  if (size > 0 && size + line.size() > spec_.max_file_bytes) {
    flush();
    rotate();
    // If no new file can be opened there is none, and the next line tries again.
    if (!begin()) {
      ++counters_.lost_lines;
      return;
    }
  }
  pending_ += line;
  ++pending_lines_;
  if (pending_.size() >= kPendingBytes) flush();
}

void RecordFile::flush() {
  if (pending_.empty()) return;
  // There is no file because a rotation failed. Tries whether there is room again.
  const bool written = (descriptor_ >= 0 || begin()) && write_all(pending_);
  (written ? counters_.lines : counters_.lost_lines) += pending_lines_;
  pending_.clear();
  pending_lines_ = 0;
}

bool RecordFile::begin() {
  // The owner decides who may read the traffic of a gateway.
  constexpr mode_t kOwnerOnly = 0600;
  descriptor_ = ::open(spec_.file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kOwnerOnly);
  size_ = 0;
  if (descriptor_ < 0) {
    note_failure("cannot be made");
    return false;
  }
  // A file without its head is useless, so no later line is written to it either.
  if (!write_all(head_(part_))) {
    ::close(std::exchange(descriptor_, -1));
    return false;
  }
  ++part_;
  return true;
}

void RecordFile::rotate() {
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
  std::error_code error;
  if (!std::filesystem::exists(spec_.file, error)) return;
  if (spec_.files <= 1) return;  // it is written anew
  std::filesystem::remove(rotated(spec_.file, spec_.files - 1), error);
  for (std::uint32_t number = spec_.files - 1; number > 0; --number) {
    std::filesystem::rename(rotated(spec_.file, number - 1), rotated(spec_.file, number), error);
  }
  ++counters_.rotations;
}

bool RecordFile::write_all(std::string_view text) {
  std::string_view rest = text;
  while (!rest.empty()) {
    const ssize_t written = ::write(descriptor_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      note_failure("cannot be written");
      // Cuts the file back to its last whole line, behind which the next lines are written.
      if (::ftruncate(descriptor_, static_cast<off_t>(size_)) == 0) ::lseek(descriptor_, 0, SEEK_END);
      return false;
    }
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
  size_ += text.size();
  counters_.bytes += text.size();
  return true;
}

void RecordFile::note_failure(std::string_view doing) {
  ++counters_.failures;
  last_error_ = fmt::format("{}: {}", doing, std::error_code(errno, std::system_category()).message());
}

}  // namespace kvist::gateway

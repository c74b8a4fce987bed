#include "kvist/engine/cpu/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <utility>

namespace kvist::engine::cpu {

Result<MappedFile> MappedFile::open(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) {
    return fail(errno == ENOENT ? ErrorCode::kNotFound : ErrorCode::kInternal,
                fmt::format("{}: {}", path, std::strerror(errno)));
  }
  struct stat status{};
  MappedFile mapped;
  int error = 0;
  if (::fstat(file, &status) != 0) {
    error = errno;
  } else if (!S_ISREG(status.st_mode)) {
    error = EISDIR;
  } else if (status.st_size > 0) {
    mapped.size_ = static_cast<std::size_t>(status.st_size);
    void* const at = ::mmap(nullptr, mapped.size_, PROT_READ, MAP_PRIVATE, file, 0);
    if (at == MAP_FAILED) {
      error = errno;
      mapped.size_ = 0;
    } else {
      mapped.data_ = static_cast<const std::byte*>(at);
    }
  }
  ::close(file);
  if (error != 0) return fail(ErrorCode::kInternal, fmt::format("{}: {}", path, std::strerror(error)));
  return mapped;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::forget(std::span<const std::byte> part) {
  // Whole pages only: the pages at both ends also hold bytes outside the part.
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t before = reinterpret_cast<std::uintptr_t>(part.data()) % page;
  const std::size_t skip = before == 0 ? 0 : page - before;
  if (part.size() < skip + page) return;
  auto* const from = const_cast<std::byte*>(part.data() + skip);
  ::madvise(from, (part.size() - skip) / page * page, MADV_DONTNEED);
}

}  // namespace kvist::engine::cpu

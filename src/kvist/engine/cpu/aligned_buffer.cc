#include "kvist/engine/cpu/aligned_buffer.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include "kvist/base/check.h"

namespace kvist::engine::cpu {

AlignedBuffer::AlignedBuffer(std::size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  void* const at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  KVIST_CHECK(at != MAP_FAILED, fmt::format("no address space for {} bytes", bytes));
  ::madvise(at, bytes, MADV_HUGEPAGE);  // a hint: without huge pages it is only slower
  data_ = at;
}

AlignedBuffer::~AlignedBuffer() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

}  // namespace kvist::engine::cpu

// Large memory for weights, KV blocks and activations.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

namespace kvist::engine::cpu {

/// Zeroed memory, aligned to a page and in huge pages if the system has them: weights are streamed, and with 4 KiB
/// pages every page costs a page-table walk. Move-only. Aborts if the address space is exhausted; physical memory is
/// allocated at the first write.
class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  explicit AlignedBuffer(std::size_t bytes);
  AlignedBuffer(AlignedBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  AlignedBuffer& operator=(AlignedBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  AlignedBuffer(const AlignedBuffer&) = delete;
  AlignedBuffer& operator=(const AlignedBuffer&) = delete;
  ~AlignedBuffer();

  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  /// The memory as numbers of one type, as many as fit.
  template <class T>
  [[nodiscard]] std::span<T> as() const {
    return {static_cast<T*>(data_), bytes_ / sizeof(T)};
  }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace kvist::engine::cpu

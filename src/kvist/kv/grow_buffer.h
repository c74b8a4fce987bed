// A list that is filled again and again, and whose new values are written only once.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>

namespace kvist::kv {

/// Like a vector of plain values, but add() leaves the new values uninitialised, because its caller writes them at
/// once. Growing moves all values, so pointers to them become invalid. Threads: one at a time.
template <class Value>
class GrowBuffer {
  static_assert(std::is_trivially_copyable_v<Value> && std::is_trivially_destructible_v<Value>);

 public:
  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] std::size_t capacity() const { return capacity_; }
  [[nodiscard]] std::span<const Value> values() const { return {values_.get(), size_}; }

  /// Adds `count` values and returns the first, for the caller to write them. Valid until the next call.
  [[nodiscard]] Value* add(std::size_t count) {
    if (count > capacity_ - size_) grow(size_ + count);
    Value* const added = values_.get() + size_;
    size_ += count;
    return added;
  }
  /// Keeps the first `size` values, and their memory.
  void cut(std::size_t size) { size_ = std::min(size_, size); }
  /// Drops all values and gives the memory back.
  void release() {
    values_.reset();
    size_ = capacity_ = 0;
  }

 private:
  void grow(std::size_t least) {
    const std::size_t capacity = std::max({least, 2 * capacity_, std::size_t{256}});
    auto values = std::make_unique_for_overwrite<Value[]>(capacity);
    std::copy_n(values_.get(), size_, values.get());
    values_ = std::move(values);
    capacity_ = capacity;
  }

  std::unique_ptr<Value[]> values_;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace kvist::kv
